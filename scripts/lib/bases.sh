# shellcheck shell=bash
# The images that servers of packages and of source are built on: present, else
# pulled, else made from Debian packages, npm's own Node.js and this machine's Go.

npm_base=node:24-bookworm-slim
pypi_base=python:3.11-slim-bookworm
go_base=golang:1.26-bookworm

have_package_bases() {
	have_npm_base
	have_package_base pypi "$pypi_base"
	have_package_base go "$go_base"
	have_tools
}

# have_npm_base has the image of Node.js, for steps that run side by side.
have_npm_base() {
	(
		! command -v flock >/dev/null || flock 8
		have_package_base npm "$npm_base"
	) 8>"$scratch/npm.lock"
}

# have_tools builds the image of the usual tools, on Node.js.
have_tools() {
	local context=$scratch/tools inputs
	cp -R "$root/images/tools" "$context"
	inputs=$(digest_tree "$context")+$(docker image inspect --format '{{.Id}}' "$npm_base")
	local_certificates >"$context/ca.pem"
	have_image waza-tools:latest "$context" "$inputs"
}

# have_package_base NAME TAG. What was made here is made again when its inputs
# change; what came from elsewhere is left as it is.
have_package_base() {
	local context=$scratch/base-$1 inputs
	rm -rf "$context"
	cp -R "$root/scripts/images/$1" "$context"
	[ "$1" != go ] || go version >"$context/version"
	inputs=$(digest_tree "$context")+$(docker image inspect --format '{{.Id}}' "$base_image")
	if image_is_there "$2" && [ -z "$(image_inputs "$2")" ]; then
		say bases "$2 is there"
		return
	fi
	if ! image_is_there "$2" && at_most 60 docker pull --quiet "$2" >/dev/null 2>&1; then
		say bases "$2 pulled"
		return
	fi
	local_certificates >"$context/ca.pem"
	[ "$1" != go ] || [ "$(image_inputs "$2")" = "$inputs" ] || copy_go "$context/go"
	have_image "$2" "$context" "$inputs"
}

# copy_go DIRECTORY copies what builds need of this machine's Go.
copy_go() {
	local from part
	from=$(go env GOROOT)
	mkdir "$1"
	for part in VERSION go.env bin lib pkg src; do
		cp -R "$from/$part" "$1"
	done
}

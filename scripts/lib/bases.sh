# shellcheck shell=bash
# The images that servers written as npx and uvx are built on: present, else
# pulled, else made from Debian packages and npm's own Node.js.

npm_base=node:24-bookworm-slim
pypi_base=python:3.11-slim-bookworm

have_package_bases() {
	have_package_base npm "$npm_base"
	have_package_base pypi "$pypi_base"
	have_tools
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
	cp -R "$root/scripts/images/$1" "$context"
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
	have_image "$2" "$context" "$inputs"
}

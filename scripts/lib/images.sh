# shellcheck shell=bash
# The images of the examples. Each carries a digest of what it was built from
# and is built again only when that changes.

inputs_label=waza.inputs

have_example_images() {
	have_first_image
	have_go_server sql examples/services/server
	have_fetching_image postgres examples/services/images/postgres "$base_image"
	have_go_memory
	have_npm_base
	have_fetching_image npm-servers examples/real-servers/images/npm-servers "$npm_base"
	have_conformance
}

have_first_image() {
	use_local_builder
	have_go_server inventory examples/mcp-eval/server
}

# buildx may have another builder selected, which cannot see local images.
use_local_builder() {
	BUILDX_BUILDER=$(docker context show 2>/dev/null) || BUILDX_BUILDER=default
	export BUILDX_BUILDER
}

# have_go_server NAME DIRECTORY builds the image of a server of ours.
have_go_server() {
	local context=$scratch/$1
	mkdir "$context"
	cp "$root/$2/Dockerfile" "$context"
	quietly "the $1 server does not compile" compile_server "$2" "$context/$1"
	have_image "waza-examples/$1:latest" "$context" "$(digest_tree "$context")"
}

compile_server() {
	(cd "$root" && CGO_ENABLED=0 GOOS=linux GOARCH=$(engine_arch) \
		go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$2" "./$1")
}

have_conformance() {
	mkdir "$scratch/conformance"
	quietly "the conformance suite's server does not compile" \
		compile_everything "$scratch/conformance/everything-server"
	have_fetching_image conformance test/conformance/image "$npm_base"
}

# The server is the tool of a module of its own, which pins it.
compile_everything() {
	(cd "$root/test/conformance/everything" && CGO_ENABLED=0 GOOS=linux GOARCH=$(engine_arch) \
		go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$1" \
		github.com/modelcontextprotocol/go-sdk/conformance/everything-server)
}

# have_fetching_image NAME DIRECTORY BASE builds an image whose builder fetches packages, on BASE, of DIRECTORY
# and what is in the scratch directory under NAME.
have_fetching_image() {
	local context=$scratch/$1 inputs base
	base=$(docker image inspect --format '{{.Id}}' "$3") || die "$3 is missing: run scripts/setup base"
	mkdir -p "$context"
	cp -R "$root/$2/." "$context"
	inputs=$(digest_tree "$context")+$base
	# Certificates are no input: the packages are the same whoever vouches
	# for the connection.
	local_certificates >"$context/ca.pem"
	have_image "waza-examples/$1:latest" "$context" "$inputs"
}

have_go_memory() {
	local context=$scratch/go-memory
	mkdir "$context"
	cp "$root/examples/real-servers/images/go-memory/Dockerfile" "$context"
	quietly "the Go SDK's memory server does not compile" compile_go_memory "$context/memory"
	have_image waza-examples/go-memory:latest "$context" "$(digest_tree "$context")"
}

compile_go_memory() {
	(cd "$root/examples/real-servers/images/go-memory" && CGO_ENABLED=0 GOOS=linux GOARCH=$(engine_arch) \
		go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$1" github.com/modelcontextprotocol/go-sdk/examples/server/memory)
}

# have_agents builds what is missing of the agents' images. It says itself what it does.
have_agents() {
	[ -x "$root/bin/waza" ] || die "bin/waza is missing: run scripts/build"
	"$root/bin/waza" images build 2>&1 | while IFS= read -r line; do say agents "$line"; done
}

# have_image TAG CONTEXT INPUTS builds the image unless it has these inputs.
have_image() {
	if [ "$(image_inputs "$1")" = "$3" ]; then
		say images "$1 is up to date"
		return
	fi
	say images "$1 is being built"
	quietly "docker could not build $1" \
		docker build --label "$inputs_label=$3" --tag "$1" "$2"
}

# drop_leftovers removes the untagged images of ours: those that were just
# replaced, and the first stages of builds, which the classic builder keeps. Not while
# anything is built, whose stages are such images too.
drop_leftovers() {
	local label
	for label in "$inputs_label" waza.stage=builder; do
		docker image prune --force --filter "label=$label" >/dev/null 2>"$scratch/log" ||
			say images "warning: what building images left over could not be removed: $(tail -n 1 "$scratch/log")"
	done
}

image_inputs() {
	docker image inspect --format "{{index .Config.Labels \"$inputs_label\"}}" "$1" 2>/dev/null || true
}

# digest_tree DIRECTORY prints one digest of all names and contents in it.
digest_tree() {
	(cd "$1" && find . -type f | LC_ALL=C sort | while IFS= read -r file; do
		printf '%s %s\n' "$(git hash-object --no-filters "$file")" "$file"
	done) | git hash-object --stdin
}

# local_certificates prints what this machine trusts, so that a build behind a
# proxy that signs anew can verify it; nothing where that is unknown.
local_certificates() {
	local file
	for file in "${NODE_EXTRA_CA_CERTS-}" "${SSL_CERT_FILE-}" /etc/ssl/certs/ca-certificates.crt; do
		if [ -r "$file" ]; then
			cat "$file"
			return
		fi
	done
}

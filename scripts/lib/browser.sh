# shellcheck shell=bash
# What tests look at pages with: a browser, and axe-core, which looks for barriers.

have_browser() {
	have_chromium
	have_axe
}

have_chromium() {
	if ! command -v chromium >/dev/null; then
		can_apt || die "Chromium is needed to look at pages: install it so that \"chromium\" is on PATH, or run this as root on Debian"
		say browser "installing chromium"
		apt_install chromium
	fi
	say browser "$(chromium --version 2>/dev/null)"
}

# have_axe leaves bin/axe.min.js. It comes out of an image, so that this machine needs no npm.
have_axe() {
	local context=$scratch/axe base container
	base=$(docker image inspect --format '{{.Id}}' "$npm_base") ||
		die "$npm_base is missing: run scripts/setup bases"
	cp -R "$root/scripts/images/axe" "$context"
	local inputs
	inputs=$(digest_tree "$context")+$base
	local_certificates >"$context/ca.pem"
	have_image waza-tests/axe:latest "$context" "$inputs"
	mkdir -p "$root/bin"
	container=$(docker create waza-tests/axe:latest none)
	quietly "axe-core does not come out of its image" docker cp "$container:/axe.min.js" "$root/bin/axe.min.js"
	quietly "the engine kept the container $container" docker rm "$container"
}

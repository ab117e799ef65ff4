# shellcheck shell=bash
# The base image: present, else pulled, else made from Debian packages.

base_image=debian:bookworm-slim

have_base() {
	if image_is_there "$base_image"; then
		say base "$base_image is there"
	elif pull_base; then
		say base "$base_image pulled"
	else
		make_base
		say base "$base_image made from Debian packages"
	fi
}

image_is_there() { docker image inspect "$1" >/dev/null 2>&1; }

pull_base() { at_most 60 docker pull --quiet "$base_image" >/dev/null 2>&1; }

make_base() {
	have_mmdebstrap
	[ "$(dpkg --print-architecture)" = "$(engine_arch)" ] ||
		die "$base_image cannot be pulled, nor made here for $(engine_arch): load it into the engine"
	say base "$base_image cannot be pulled, making it"
	quietly "mmdebstrap could not make $base_image" bootstrap "$scratch/base.tar"
	quietly "the engine did not take $base_image" import_base "$scratch/base.tar"
	rm "$scratch/base.tar"
}

have_mmdebstrap() {
	command -v mmdebstrap >/dev/null && return
	can_apt || die "$base_image cannot be pulled: load it into the engine, or run this as root on Debian, where it makes one"
	apt_install mmdebstrap debian-archive-keyring
}

engine_arch() { docker version --format '{{.Server.Arch}}'; }

# bootstrap FILE writes a root file system as tar: Debian 12 from the mirrors
# this machine uses, or mmdebstrap's own where it uses none. Manuals and
# translations stay out, as in every slim image, and dpkg does not wait for the disk in builds.
bootstrap() {
	local mirrors=()
	bookworm_sources >"$scratch/sources.list"
	[ ! -s "$scratch/sources.list" ] || mirrors=("$scratch/sources.list")
	mmdebstrap --quiet --variant=minbase --format=tar \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		bookworm "$1" ${mirrors[@]+"${mirrors[@]}"}
}

# bookworm_sources prints this machine's own apt sources for Debian 12.
bookworm_sources() {
	# shellcheck disable=SC2016 # apt-get expands these
	apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" && $2 ~ /^bookworm(-updates|-security)?$/ && $3 == "main" {
			print "deb", $4, $2, $3
		}' | sort -u
}

import_base() {
	docker import \
		--change 'CMD ["bash"]' \
		--change 'LABEL org.opencontainers.image.title="Debian 12, minimal"' \
		--change 'LABEL org.opencontainers.image.description="Made with mmdebstrap by scripts/setup of waza"' \
		"$1" "$base_image"
}

# shellcheck shell=bash
# Kubernetes for tests: the programs that its nodes run, and its own, built.

have_cluster() {
	if ! cluster_has_packages; then
		can_apt || die "Kubernetes for tests needs containerd, runc, nftables and CNI plugins: install them, or run this as root on Debian"
		say cluster "installing what nodes run"
		local packages=(containernetworking-plugins nftables iproute2)
		command -v containerd >/dev/null || packages+=(containerd)
		apt_install "${packages[@]}"
	fi
	"$root/scripts/cluster" build
	say cluster "Kubernetes $(go list -C "$root/internal/cluster" -m -f '{{.Version}}' k8s.io/kubernetes)"
}

cluster_has_packages() {
	command -v containerd runc nft ip >/dev/null && { [ -e /usr/lib/cni/ptp ] || [ -e /opt/cni/bin/ptp ]; }
}

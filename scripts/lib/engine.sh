# shellcheck shell=bash
# The Docker engine: used as it is where one answers, installed and started
# where this machine is Debian and we are root.

engine_log=/var/log/waza-dockerd.log

have_engine() {
	if ! engine_answers; then
		[ "$engine_silent" = no ] || die "$engine_reason"
		refuse_foreign_engine
		can_apt || die "no Docker engine answers${engine_reason:+ ($engine_reason)}: start one and see that you may use it, or run this as root on Debian, where it installs one"
		install_engine
		start_engine
	fi
	say engine "Docker $(docker version --format '{{.Server.Version}}, {{.Server.Os}}/{{.Server.Arch}}')"
}

# engine_answers leaves the reason for a failure in engine_reason. An engine that is
# stopped refuses at once; one that is busy, or stuck, is silent.
engine_answers() {
	local status=0
	engine_silent=no
	engine_reason='there is no docker command'
	command -v docker >/dev/null || return
	engine_reason=$(at_most 120 docker version --format '{{.Server.Version}}' 2>&1 >/dev/null) || status=$?
	[ "$status" != 0 ] || return 0
	engine_reason=$(printf '%s\n' "$engine_reason" | tail -n 1)
	if [ "$status" = 124 ]; then
		engine_silent=yes
		engine_reason="the Docker engine is busy or stuck: no answer within 120 s; try again when the machine has less to do, or restart Docker"
	fi
	return 1
}

# An engine that the user chose is the user's to start.
refuse_foreign_engine() {
	[ -z "${DOCKER_HOST-}" ] ||
		die "the Docker engine at DOCKER_HOST=$DOCKER_HOST does not answer"
	local context
	context=$(docker context show 2>/dev/null) || context=default
	[ "$context" = default ] ||
		die "the Docker engine of the context \"$context\" does not answer"
}

install_engine() {
	if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
		say engine "installing docker.io"
		apt_install docker.io iptables ca-certificates
	fi
	# From Debian 13 on the client is a package of its own.
	command -v docker >/dev/null || apt_install docker-cli
}

start_engine() {
	say engine "starting"
	if [ -d /run/systemd/system ]; then
		quietly "systemd could not start docker.service" systemctl start docker.service
		wait_for_engine "$(systemctl show --property MainPID --value docker.service)"
	elif dockerd_pid >/dev/null; then
		wait_for_engine "$(dockerd_pid)"
	else
		setsid dockerd >>"$engine_log" 2>&1 </dev/null 9>&- & # without the lock of setup
		wait_for_engine $!
	fi
}

# dockerd_pid prints the process of a dockerd that is there, perhaps not
# answering yet.
dockerd_pid() {
	local pid
	pid=$(cat /var/run/docker.pid 2>/dev/null) && [ -d "/proc/$pid" ] && echo "$pid"
}

# wait_for_engine PID waits until dockerd, which is the process PID, answers.
wait_for_engine() {
	local deadline=$((SECONDS + 60))
	until engine_answers; do
		[ -d "/proc/$1" ] || dockerd_pid >/dev/null || engine_failed "dockerd ended instead of answering"
		[ "$SECONDS" -lt "$deadline" ] || engine_failed "dockerd does not answer after 60 s"
		sleep 0.2
	done
}

engine_failed() {
	grep -v level=info "$engine_log" 2>/dev/null | tail -n 5 >&2 || true
	die "$1: $engine_reason"
}

# have_compose has Debian's docker-compose, which is the version that figures are about.
have_compose() {
	if ! command -v docker-compose >/dev/null; then
		can_apt || die "docker-compose is needed: install it, or run this as root on Debian"
		say compose "installing docker-compose"
		apt_install docker-compose
	fi
	say compose "docker-compose $(docker-compose version --short)"
}

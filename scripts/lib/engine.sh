# shellcheck shell=bash
# The Docker engine: used as it is where one answers, installed and started
# where this machine is Debian and we are root.

engine_log=/var/log/waza-dockerd.log

have_engine() {
	if ! engine_answers; then
		refuse_foreign_engine
		can_apt || die "no Docker engine answers${engine_reason:+ ($engine_reason)}: start one and see that you may use it, or run this as root on Debian, where it installs one"
		install_engine
		start_engine
	fi
	say engine "Docker $(docker version --format '{{.Server.Version}}, {{.Server.Os}}/{{.Server.Arch}}')"
}

# engine_answers leaves docker's own words about a failure in engine_reason.
engine_answers() {
	engine_reason='there is no docker command'
	command -v docker >/dev/null || return
	engine_reason=$(at_most 20 docker version --format '{{.Server.Version}}' 2>&1 >/dev/null) && return
	engine_reason=$(printf '%s\n' "$engine_reason" | tail -n 1)
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
	if ! command -v dockerd >/dev/null; then
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
	elif ! engine_is_running; then
		setsid --fork dockerd >>"$engine_log" 2>&1 </dev/null
	fi
	wait_for_engine 60
}

# engine_is_running: whether a dockerd is there, perhaps not answering yet.
engine_is_running() {
	local pid
	pid=$(cat /var/run/docker.pid 2>/dev/null) && [ -d "/proc/$pid" ]
}

wait_for_engine() {
	local deadline=$((SECONDS + $1))
	until engine_answers; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			[ ! -f "$engine_log" ] || tail -n 20 "$engine_log" >&2
			die "dockerd was started but did not answer within $1 s ($engine_reason)"
		fi
		sleep 0.2
	done
}

#!/bin/bash
# Runs in the virtual machine of scripts/engines: starts the engine that the kernel's command
# line names, runs waza on it, and prints a line "RESULT KEY TEXT" for each cell of the table.
set -uo pipefail
engine=$(sed 's/.*engine=\([^ ]*\).*/\1/' /proc/cmdline)
export PATH=/job/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
verdict=ok

result() { printf 'RESULT %s %s\n' "$1" "$2"; }
bad() { verdict=failed; }

# as COMMAND...: runs the command as the user whose engine it is.
as() {
	case $engine in
	*rootless*) runuser -u waza -- env "PATH=$PATH" HOME=/home/waza XDG_RUNTIME_DIR=/run/user/1000 "${extra[@]}" "$@" ;;
	*) env "${extra[@]}" "$@" ;;
	esac
}
extra=(TMPDIR=/tmp)

start_engine() {
	case $engine in
	rootless-*)
		until [ -S /run/user/1000/bus ]; do sleep 1; done
		as systemd-run --quiet --user --unit=engine --property=Delegate=yes /usr/share/docker.io/contrib/dockerd-rootless.sh
		;;
	docker-*)
		systemctl unmask --quiet docker.service docker.socket
		systemctl start docker.service
		;;
	podman-rootless)
		until [ -S /run/user/1000/bus ]; do sleep 1; done
		as mkdir -p /run/user/1000/podman
		as systemd-run --quiet --user --unit=engine podman system service --time=0 unix:///run/user/1000/podman/podman.sock
		;;
	podman-*)
		mkdir -p /run/podman
		systemd-run --quiet --unit=engine podman system service --time=0 unix:///run/podman/podman.sock
		;;
	esac
}

# socket prints the engine's socket.
socket() {
	case $engine in
	rootless-*) echo /run/user/1000/docker.sock ;;
	docker-*) echo /var/run/docker.sock ;;
	podman-rootless) echo /run/user/1000/podman/podman.sock ;;
	podman-*) echo /run/podman/podman.sock ;;
	esac
}

await_engine() {
	local n
	for n in $(seq 300); do
		[ -S "$(socket)" ] && return 0
		sleep 1
	done
	return 1
}

# A refused engine is one that doctor and run both name in a sentence, and no container is made.
expect_refusal() {
	local said left
	as env "DOCKER_HOST=unix://$(socket)" waza doctor >/tmp/doctor 2>&1 && bad
	result doctor "$(grep -m 1 -o 'the engine at .* is Podman[^;]*' <(tr -s ' \n' ' ' </tmp/doctor))"
	said=$(cd "$work/examples/mcp-eval" && as env "DOCKER_HOST=unix://$(socket)" waza run --isolate eval.yaml 2>&1) && bad
	printf '%s\n' "$said"
	grep -q 'is Podman' <<<"$said" || bad
	result examples refused
	for key in certificate attacks kills limits; do result "$key" -; done
	left=$(as podman ps --all --quiet && as podman network ls --quiet --filter label=waza.run && as podman volume ls --quiet) || bad
	[ -z "$left" ] || bad
	result left "${left:-nothing}"
}

# run_examples expects the exit codes that the examples have on other engines: two of narration's tasks are
# meant to fail.
run_examples() {
	local passed=0 all=0 example code
	for example in mcp-eval:0 services:0 narration:1 llm:0; do
		all=$((all + 1))
		(cd "$work/examples/${example%:*}" && as waza run --isolate --workers 1 eval.yaml) 2>&1 | cat
		code=${PIPESTATUS[0]}
		[ "$code" = "${example#*:}" ] && passed=$((passed + 1))
	done
	result examples "$passed of $all"
	[ "$passed" = "$all" ] || bad
}

probe() {
	local held
	as waza doctor --probe >/tmp/probe 2>&1 || bad
	cat /tmp/probe
	held=$(tr -s ' \n' ' ' </tmp/probe | grep -o '\(bridge\|airtight\): [0-9]* attacks from inside were held' | sed 's/ attacks from inside were//' | paste -sd ',' | sed 's/,/, /')
	result certificate "${held:-see the log}"
}

attack() {
	local said
	as mkdir -p "$work/src/test/attacks"
	cat >"$work/shim/go" <<-'SHIM'
		#!/bin/sh
		# go build ... -o FILE PACKAGE, where the program is built already
		while [ "$1" != -o ]; do shift; done
		cp "/job/programs/$(basename "$3")" "$2"
	SHIM
	chmod +x "$work/shim/go"
	as cp /job/attacks.test "$work/src/test/attacks/" # it builds beside itself
	said=$(cd "$work/src/test/attacks" && as env "PATH=$work/shim:$PATH" WAZA_BIN=/job/bin/waza WAZA_REQUIRE_DOCKER=1 \
		./attacks.test -test.v -test.timeout 30m -test.run '^TestAttacksOnEngine$' -figures "$work/figures" 2>&1) || bad
	grep -v '^=== ' <<<"$said" | grep -v ' --- PASS'
	result attacks "$(sed 's/;.*//' "$work/figures" 2>/dev/null)"
}

containers() { as docker ps --all --quiet --filter label=waza.run | wc -l; }
networks() { as docker network ls --quiet --filter label=waza.run | wc -l; }
volumes() { as docker volume ls --quiet --filter label=waza.run | wc -l; }

running() { as docker ps --quiet --filter label=waza.run | wc -l; }

# kill_at COUNT kills a run once the engine has so many containers of it, and looks whether they
# end by themselves.
kill_at() {
	local n reached=''
	(cd "$work/examples/mcp-eval" && as setsid waza run --isolate eval.yaml >/dev/null 2>&1) &
	for n in $(seq 600); do
		[ "$(containers)" -ge "$1" ] && reached=yes && break
		sleep 0.2
	done
	# Neither runuser nor env is meant, whose arguments end so.
	if ! pkill -KILL -f '^waza run --isolate' || [ -z "$reached" ]; then
		echo "the run ended before it was killed with $1 containers"
		return 1
	fi
	sleep 15 # the engine may still start a container that the run has asked for
	for n in $(seq 180); do
		[ "$(running)" = 0 ] && break
		sleep 1
	done
	if [ "$(running)" != 0 ]; then
		as docker ps --filter label=waza.run
		return 1
	fi
	for n in $(seq 20); do
		as waza gc
		[ "$(containers)$(networks)$(volumes)" = 000 ] && return 0
		sleep 1
	done
	echo "gc left $(containers) containers, $(networks) networks, $(volumes) volumes"
	return 1
}

kill_runs() {
	local held=0 at
	as waza gc # what the attacks left, which would be counted
	for at in 1 3 5; do
		kill_at "$at" && held=$((held + 1))
	done
	result kills "$held of 3"
	[ "$held" = 3 ] || bad
}

work=/var/tmp/job
mkdir -p "$work/shim"
cp -R /job/examples "$work/"
# An emulated processor is some ten times slower than a real one.
sed -i -e 's/timeout_seconds: 60/timeout_seconds: 600/' -e 's/\(ready: {.*\)}/\1, timeout: 600}/' "$work"/examples/*/eval.yaml
[[ $engine != *rootless* ]] || chown -R waza "$work"
cd "$work" || exit
start_engine
await_engine || {
	journalctl --no-pager --lines 60
	result verdict "the engine does not answer"
	exit
}
case $engine in
podman-*)
	result version "Podman $(podman --version | awk '{ print $3 }'), kernel $(uname -r)"
	expect_refusal
	;;
*)
	for n in $(seq 60); do as docker info >/dev/null 2>&1 && break || sleep 1; done
	[[ $engine != rootless-* ]] || extra+=("DOCKER_HOST=unix://$(socket)")
	result version "$(as docker info --format 'Docker {{.ServerVersion}}, API '"$(as docker version --format '{{.Server.APIVersion}}')"', cgroup {{.CgroupVersion}} ({{.CgroupDriver}}), {{.Driver}}, kernel {{.KernelVersion}}')"
	as docker load --quiet </job/images.tar || bad
	as waza doctor >/tmp/doctor 2>&1 || bad
	cat /tmp/doctor
	result doctor "$(tail -n 1 /tmp/doctor)"
	run_examples
	run=$(echo "$work"/examples/mcp-eval/.waza/runs/*)
	missing=$(jq -r '.guarantees.missing | join("; ")' "$run/run.json")
	grep -q 'Isolated, with gaps' "$run/report.html" && gaps=yes || gaps=''
	[ "${missing:+yes}" = "$gaps" ] || bad
	result limits "${missing:-all enforced}"
	probe
	attack
	kill_runs
	as waza gc
	left="$(containers) containers, $(networks) networks, $(volumes) volumes"
	[ "$left" = "0 containers, 0 networks, 0 volumes" ] && left=nothing || bad
	result left "$left"
	;;
esac
result verdict "$verdict"

package mcpconfig_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

// words splits a command line at blanks; ” is an empty word.
func words(line string) []string {
	all := strings.Fields(line)
	for i, word := range all {
		all[i] = strings.ReplaceAll(word, "''", "")
	}
	return all
}

func TestFromDockerRun(t *testing.T) {
	for line, want := range map[string]mcpconfig.Server{
		"run i":                          {Image: "i"},
		"run -i --rm i a -v b":           {Image: "i", Args: []string{"a", "-v", "b"}},
		"container run -- i":             {Image: "i"},
		"run -it i":                      {Image: "i"},
		"run -ti --init=true i":          {Image: "i"},
		"run -itw /srv i":                {Image: "i", Cwd: "/srv"},
		"run -w=/srv i":                  {Image: "i", Cwd: "/srv"},
		"run --workdir ${DIR} i":         {Image: "i", Cwd: "${DIR}"},
		"run ${IMAGE}":                   {Image: "${IMAGE}"},
		"run -e A=b -e C= --env=D=e=f i": {Image: "i", Env: map[string]string{"A": "b", "C": "", "D": "e=f"}},
		"run -e A=${X:-y} -eB i":         {Image: "i", Env: map[string]string{"A": "${X:-y}", "B": "${B}"}},
		"run -e A=1 -e A=2 i":            {Image: "i", Env: map[string]string{"A": "2"}},
		"run --name x -l a=b --label=c --cap-drop ALL --read-only -q i": {Image: "i"},
		"run --network none --security-opt no-new-privileges i":         {Image: "i"},
		"run -u app -m 64m --cpus 0.5 --pids-limit=9 i":                 {Image: "i", User: "app", Limits: mcpconfig.Limits{Memory: "64m", CPUs: 0.5, Pids: 9}},
		"run --shm-size=1g i":                        {Image: "i", Limits: mcpconfig.Limits{ShmSize: "1g"}},
		"run --tmpfs /run --tmpfs=/data i":           {Image: "i", Writable: []string{"/run", "/data"}},
		"run --pull=always --platform linux/amd64 i": {Image: "i", Pull: "always", Platform: "linux/amd64"},
		"run --entrypoint serve i -a":                {Image: "i", Command: "serve", Args: []string{"-a"}},
		"run --entrypoint '' i serve -a":             {Image: "i", Command: "serve", Args: []string{"-a"}},
		"run ghcr.example/team/s@sha256:0123 x":      {Image: "ghcr.example/team/s@sha256:0123", Args: []string{"x"}},
	} {
		t.Run(line, func(t *testing.T) {
			in := mcpconfig.Server{Command: "/usr/bin/docker", Args: words(line)}
			got, err := mcpconfig.FromDockerRun("s", in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(words(line), in.Args); diff != "" {
				t.Errorf("its argument was changed:\n%s", diff)
			}
		})
	}
}

func TestFromDockerRunKeepsTheRest(t *testing.T) {
	in := mcpconfig.Server{
		Command: "podman", Args: words("run -e TOKEN -e LEVEL=${L:-info} -e HOST_ONE i"), Env: map[string]string{"TOKEN": "Bearer ${T}"},
		Type: "http", Port: 80, Path: "/mcp", Timeout: 5, StartupTimeout: 6, Limits: mcpconfig.Limits{Disk: "1m"}, Files: map[string]string{"/data/x": "x"},
	}
	want := in
	want.Command, want.Args, want.Image = "", nil, "i"
	want.Env = map[string]string{"TOKEN": "Bearer ${T}", "LEVEL": "${L:-info}", "HOST_ONE": "${HOST_ONE}"}
	got, err := mcpconfig.FromDockerRun("s", in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, other := range map[string]mcpconfig.Server{
		"a command":           {Command: "serve", Args: []string{"run"}},
		"docker in its image": {Command: "docker", Args: words("run -v /:/host i"), Image: "docker-in-docker"},
		"an image":            {Image: "docker"},
	} {
		got, err := mcpconfig.FromDockerRun("s", other)
		if diff := cmp.Diff(other, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// The options that would take down a wall are each refused at their place.
func TestFromDockerRunRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"run -v /:/host i":                        "1: -v mounts a directory of the host",
		"run -i -v=/:/host i":                     "2: -v mounts",
		"run --volume /:/host i":                  "1: --volume mounts",
		"run -iv /:/host i":                       "1: -v mounts",
		"run -v/:/host i":                         "1: -v mounts",
		"run --mount type=bind,src=/ i":           "1: --mount mounts",
		"run --volumes-from x i":                  "1: --volumes-from mounts",
		"run --privileged i":                      "1: --privileged turns off the isolation",
		"run --privileged=true i":                 "1: --privileged turns off the isolation",
		"run --network host i":                    "1: --network gives the container a network",
		"run --net=bridge i":                      "1: --net gives the container a network",
		"run -p 80:80 i":                          "1: -p opens a port",
		"run --publish 80 i":                      "1: --publish opens a port",
		"run -P i":                                "1: -P opens a port",
		"run --cap-add SYS_ADMIN i":               "1: --cap-add adds a capability",
		"run --device /dev/kvm i":                 "1: --device hands in a device",
		"run --gpus all i":                        "1: --gpus hands in a device",
		"run --pid host i":                        "1: --pid shares",
		"run --ipc=host i":                        "1: --ipc shares",
		"run --uts host i":                        "1: --uts shares",
		"run --userns host i":                     "1: --userns shares",
		"run --cgroupns host i":                   "1: --cgroupns shares",
		"run --security-opt seccomp=unconfined i": "1: --security-opt changes how",
		"run --env-file .env i":                   "1: --env-file reads a file of the host",
		"run --add-host a:1.2.3.4 i":              "1: --add-host is about names outside",
		"run --dns 192.0.2.1 i":                   "1: --dns is about names outside",
		"run --runtime runsc i":                   "1: --runtime is the runtime of the whole eval; set config.isolation.runtime",
		"run -d i":                                "1: -d leaves the server without stdin",
		"run -di i":                               "1: -d leaves the server without stdin",
		"run --restart always i":                  "1: --restart would start",
		"run --rm=false i":                        "1: --rm cannot be switched off",
		"run --interactive=maybe i":               "1: --interactive cannot be switched off",
		"run --envs A i":                          `1: docker run's option --envs is not known here; did you mean "env"?`,
		"run -iz i":                               `1: docker run's option "-iz" holds a letter that is not known here`,
		"run -e 1A i":                             `1: -e needs KEY or KEY=VALUE, and "1A" is not a variable's name`,
		"run -e":                                  "1: -e needs a value",
		"run -ie":                                 "1: -e needs a value",
		"run -m lots i":                           "1: -m is not a size",
		"run --cpus 0 i":                          "1: --cpus must be a number over 0",
		"run --cpus NaN i":                        "1: --cpus must be a number over 0",
		"run --shm-size 0 i":                      "1: --shm-size is not a size; write a whole number and k, m or g, such as 512m",
		"run --pids-limit -1 i":                   "1: --pids-limit must be a whole number from 1",
		"run -u 0 i":                              "1: -u must not be root",
		"run --user root:x i":                     "1: --user must not be root",
		"run -w srv i":                            "1: -w must be an absolute path",
		"run --tmpfs /data:size=1g i":             "1: --tmpfs supports only a directory",
		"run --tmpfs /etc i":                      "1: --tmpfs cannot be /etc",
		"run --pull daily i":                      "1: --pull must be missing, always or never",
		"run --entrypoint '' i":                   "3: --entrypoint is empty",
		"run -i":                                  "1: docker run names no image",
		"run ''":                                  `1: "" is not an image name`,
		"mcp gateway run":                         "0: only docker run is supported",
		"container exec x":                        "1: only docker run is supported",
		"container":                               "0: only docker run is supported",
		"":                                        "0: only docker run is supported",
	} {
		t.Run(line, func(t *testing.T) {
			_, err := mcpconfig.FromDockerRun("s", mcpconfig.Server{Command: "docker", Args: words(line)})
			var all mcpconfig.Errors
			if !errors.As(err, &all) || len(all) != 1 {
				t.Fatalf("got %v", err)
			}
			if got := all[0].Key + ": " + all[0].Message; !strings.HasPrefix(got, want) || all[0].Field != "args" {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// All errors are reported at once, including those in other fields.
func TestFromDockerRunSaysAll(t *testing.T) {
	_, err := mcpconfig.FromDockerRun("s", mcpconfig.Server{
		Command: "docker", Args: words("run -v /a:/a --privileged -m 1g --cpus 2 --pids-limit 3 i"),
		Env: map[string]string{"A": "b"}, Cwd: "/here", Limits: mcpconfig.Limits{Memory: "2g", CPUs: 1, Pids: 2},
	})
	want := `server "s": cwd is where the docker command itself would run; give the container's directory with -w in args
server "s": -v mounts a directory of the host, which an isolated server must not reach; copy files in with files, and list what it writes to under writable
server "s": --privileged turns off the isolation of the container; remove it
server "s": -m sets memory to a different value; set it once
server "s": --cpus sets cpus to a different value; set it once
server "s": --pids-limit sets pids to a different value; set it once
server "s": env.A does not reach the container, since docker run passes on only what -e names; add -e A to args, or remove it`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzFromDockerRun(f *testing.F) {
	for _, seed := range []string{
		"run\n-i\n--rm\n-e\nA\ni\nx", "run\n-ite=A=b\ni", "container\nrun\n--\ni", "run\n--entrypoint\n\ni", "run\n-v\n/:/h\ni", "run\n--cpus=1e999\ni", "run\n-\xff", "run\n--\n", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		in := mcpconfig.Server{Command: "docker", Args: slices.Clone(args), Env: map[string]string{"A": "1"}}
		got, err := mcpconfig.FromDockerRun("s", in)
		if !slices.Equal(in.Args, args) || in.Env["A"] != "1" {
			t.Error("its argument was changed")
		}
		var all mcpconfig.Errors
		switch errors.As(err, &all); {
		case err == nil:
			if got.Image == "" || mcpconfig.IsDockerRun(got) || len(got.Args) > len(args) {
				t.Errorf("%q becomes %+v", args, got)
			}
			_ = mcpconfig.Validate("s", got)
		case len(all) == 0:
			t.Errorf("%v is of another kind", err)
		}
		for _, one := range all {
			if i, err := strconv.Atoi(one.Key); one.Field == "args" && (err != nil || i < 0 || i >= len(args)) {
				t.Errorf("%v is at %s of %d arguments", one, one.Key, len(args))
			}
		}
	})
}

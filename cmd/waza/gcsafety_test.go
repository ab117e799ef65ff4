package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// What a runner asked for just before it was killed comes into being after its
// death, and after gc has looked. gc removes it all the same.
func TestFaults_GCAwaitsWhatIsStillMade(t *testing.T) {
	t.Parallel()
	p := newKilledProject(t, "airtight", "tmpfs")
	agent := regexp.MustCompile(`^create container .*-agent$`)
	victim, looked, made := make(chan *command, 1), make(chan struct{}), make(chan struct{})
	kill := sync.OnceFunc(func() {
		c := <-victim
		c.signal(syscall.SIGKILL)
		<-c.ended
	})
	announce := sync.OnceFunc(func() { close(made) })
	runner := newKillProxy(t, func(when, request string) bool {
		switch {
		case agent.MatchString(request) && when == before:
			kill()
			<-looked
		case agent.MatchString(request):
			announce()
		}
		return false
	})
	var once sync.Once
	collector := newKillProxy(t, func(when, request string) bool {
		if when == before && strings.HasPrefix(request, "remove ") {
			once.Do(func() {
				close(looked)
				<-made
			})
		}
		return false
	})
	t.Cleanup(func() { // a test that fails must not leave requests waiting: the proxies wait for them
		announce()
		once.Do(func() { close(looked) })
	})
	c := p.through(runner, "run", "--isolate", "eval.yaml", "--run-dir", "run")
	victim <- c
	<-c.ended
	p.awaitNoneStands("the agent's container is asked for")
	p.through(collector, "gc").wait(exitOK)
	dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
}

// through starts waza with a proxy before the engine.
func (p *project) through(proxy *killProxy, args ...string) *command {
	p.t.Helper()
	env := p.env
	defer func() { p.env = env }()
	p.env = append(env[:len(env):len(env)], "DOCKER_HOST="+proxy.Host)
	return p.start(args...)
}

// A runner in a container and a gc on its host, or the other way round, have the
// same boot, can have the same host name, and have each its own numbers of
// processes. A run that has just made its lease and not yet started it is safe from
// the other's gc.
func TestFaults_GCAcrossContainers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		runner, collect func(*project, *killProxy, ...string) (code int, said string)
	}{
		{"the runner in a container", (*project).inContainer, (*project).onHost},
		{"gc in a container", (*project).onHost, (*project).inContainer},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}, isolation: {network: airtight}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`, inventory)
			collected := false
			plain := newKillProxy(t, func(string, string) bool { return false })
			proxy := newKillProxy(t, func(when, request string) bool {
				if when == before && request == "start container lease" {
					collected = true
					if code, said := test.collect(p, plain, "gc"); code != exitOK {
						t.Errorf("gc: exit code %d\n%s", code, said)
					}
				}
				return false
			})
			code, said := test.runner(p, proxy, "run", "--isolate", "eval.yaml", "--run-dir", "run")
			if code != exitOK || !collected {
				t.Errorf("gc ran %t; the run exits with %d\n%s", collected, code, said)
			}
		})
	}
}

func (p *project) onHost(proxy *killProxy, args ...string) (int, string) {
	c := p.through(proxy, args...)
	<-c.ended
	return c.code, c.stdout.String() + c.stderr.String()
}

// inContainer runs waza in a container with this machine's host name and the
// engine's socket, as docker-compose would.
func (p *project) inContainer(proxy *killProxy, args ...string) (int, string) {
	t := p.t
	host, err := os.Hostname()
	if err != nil {
		t.Error(err)
		return -1, ""
	}
	engine := dockertest.Engine(t)
	ctx := context.WithoutCancel(t.Context())
	socket := filepath.Dir(strings.TrimPrefix(proxy.Host, "unix://"))
	made, err := engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: debian, Hostname: host, WorkingDir: p.dir, Env: []string{"DOCKER_HOST=" + proxy.Host}, Cmd: append([]string{"/waza"}, args...)},
		HostConfig: &container.HostConfig{Binds: []string{p.dir + ":" + p.dir, socket + ":" + socket, dockertest.Waza(t) + ":/waza:ro"}},
	})
	if err != nil {
		t.Error(err)
		return -1, ""
	}
	defer func() {
		if _, err := engine.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	wait := engine.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := engine.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		t.Error(err)
		return -1, ""
	}
	select {
	case err := <-wait.Error:
		t.Error(err)
		return -1, ""
	case status := <-wait.Result:
		return int(status.StatusCode), logsOf(ctx, t, made.ID)
	}
}

func logsOf(ctx context.Context, t *testing.T, id string) string {
	logs, err := dockertest.Engine(t).ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = logs.Close() }()
	var said strings.Builder
	_, err = stdcopy.StdCopy(&said, &said, logs)
	if err != nil && err != io.EOF {
		return err.Error()
	}
	return said.String()
}

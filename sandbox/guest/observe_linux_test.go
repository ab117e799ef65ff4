package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// strayEnv makes the test binary a program that does something which is to be seen.
const strayEnv = "WAZA_TEST_STRAY"

// strays are what such programs do.
var strays = map[string]func(arg string) error{
	"connect": func(string) error {
		for _, to := range []unix.Sockaddr{
			&unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}},
			&unix.SockaddrInet4{Port: 80, Addr: [4]byte{169, 254, 169, 254}},
			&unix.SockaddrInet6{Port: 443, Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}},
			&unix.SockaddrUnix{Name: "/run/no\nsuch.sock"},
			&unix.SockaddrUnix{Name: "@nobody"},
		} {
			tryConnect(to)
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		dns := &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 53}}
		_ = unix.Sendto(fd, []byte("x"), 0, dns)
		_ = unix.Sendmsg(fd, []byte("x"), nil, dns, 0)
		return nil
	},
	"volley": func(messages string) error {
		n, err := strconv.Atoi(messages)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		to := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: 0x3500, Addr: [4]byte{192, 0, 2, 53}} // port 53 as it is sent
		headers := make([]struct {
			unix.Msghdr
			sent uint32
		}, n)
		for i := range headers {
			headers[i].Name, headers[i].Namelen = (*byte)(unsafe.Pointer(&to)), unix.SizeofSockaddrInet4
		}
		_, _, _ = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&headers[0])), uintptr(n), 0, 0, 0)
		return nil
	},
	"storm": func(times string) error {
		n, err := strconv.Atoi(times)
		for i := range n {
			tryConnect(&unix.SockaddrInet4{Port: 1 + i%60_000, Addr: [4]byte{192, 0, 2, 1}})
		}
		return err
	},
	"hide": func(string) error {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		tryConnect(&unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}})
		return syscall.Exec("/bin/true", []string{"true"}, nil)
	},
	// It tries to be told in place of process 1, and to let all go on untold.
	"silence": func(string) error {
		_, err := addFilter([]unix.SockFilter{end(unix.SECCOMP_RET_ALLOW)})
		if err == nil {
			return fmt.Errorf("it has a listener of its own")
		}
		if _, err := setFilter([]unix.SockFilter{end(unix.SECCOMP_RET_ALLOW)}, unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
			return err
		}
		tryConnect(&unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}})
		return nil
	},
	// It tries to add a filter, in each of the ways that the kernel has.
	"filter": func(string) error {
		allow := []unix.SockFilter{end(unix.SECCOMP_RET_ALLOW)}
		_, seccomp := setFilter(allow, 0)
		prctl := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: 1, Filter: &allow[0]})), 0, 0)
		if !errors.Is(seccomp, unix.EINVAL) || !errors.Is(prctl, unix.EINVAL) {
			return fmt.Errorf("seccomp: %w, prctl: %w", seccomp, prctl)
		}
		return nil
	},
	// It tries to have its core dumped.
	"cores": func(string) error {
		var is, old unix.Rlimit
		err := errors.Join(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}), unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
		both := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, &old)
		if err := errors.Join(err, unix.Getrlimit(unix.RLIMIT_CORE, &is)); err != nil {
			return err
		}
		if is != (unix.Rlimit{Cur: coreLimit, Max: coreLimit}) || !errors.Is(both, unix.EPERM) {
			return fmt.Errorf("the limit is %+v; to set and ask at once: %w", is, both)
		}
		return unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, &old)
	},
}

func tryConnect(to unix.Sockaddr) {
	family := unix.AF_INET
	switch to.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	_ = unix.Connect(fd, to)
	_ = unix.Close(fd)
}

func stray(what, arg string) process.Spec {
	return process.Spec{Args: []string{os.Args[0]}, Env: []string{guestEnv + "=", strayEnv + "=" + what + " " + arg}}
}

func strayMain(said string) error {
	what, arg, _ := strings.Cut(said, " ")
	return strays[what](arg)
}

func watched(t *testing.T, g *Guest, spec process.Spec, dirs ...string) result {
	t.Helper()
	p, err := g.ExecWatched(t.Context(), spec, dirs)
	must(t, err)
	r := finish(p, strings.NewReader(""))
	must(t, r.err)
	return r
}

func seenBy(t *testing.T, g *Guest) observe.Seen {
	t.Helper()
	seen, err := g.Observe(t.Context())
	must(t, err)
	return seen
}

func TestConnectionsAreSeen(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	if r := watched(t, g, stray("connect", "")); r.exit.Code != 0 {
		t.Fatalf("exit %+v: %s", r.exit, r.stderr)
	}
	want := []observe.Connection{
		{Network: "ip", Address: "192.0.2.1:80", Count: 1},
		{Network: "ip", Address: "169.254.169.254:80", Count: 1},
		{Network: "ip", Address: "[2001:db8::1]:443", Count: 1},
		{Network: "unix", Address: "/run/no\nsuch.sock", Count: 1},
		{Network: "unix", Address: "@nobody", Count: 1},
		{Network: "udp", Address: "192.0.2.53:53", Count: 2},
	}
	if diff := cmp.Diff(want, seenBy(t, g).Connections); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// What one call sends is counted as far as it is looked at, and what is not is told.
func TestVolleysAreSeen(t *testing.T) {
	t.Parallel()
	for messages, reported := range map[int]string{maxMessages: "", maxMessages + 1: "17 datagrams were sent at once, of which 16 were looked at"} {
		g := startGuest(t)
		if r := watched(t, g, stray("volley", strconv.Itoa(messages))); r.exit.Code != 0 {
			t.Fatalf("exit %+v: %s", r.exit, r.stderr)
		}
		seen := seenBy(t, g)
		if len(seen.Connections) != 1 || seen.Connections[0].Count != maxMessages || seen.Unseen[observe.Connections] != reported {
			t.Errorf("%d messages: %+v, not seen: %v", messages, seen.Connections, seen.Unseen)
		}
	}
}

func TestProgramsAreSeen(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	dir := t.TempDir()
	spec := process.Spec{Args: []string{"sh", "-c", "true; cp /bin/true ./here; ./here a b; ./here; nosuchprogram; exec sh -c 'exit 3'"}, Dir: dir}
	if r := watched(t, g, spec, dir); r.exit.Code != 3 {
		t.Fatalf("exit %+v: %s", r.exit, r.stderr)
	}
	seen := seenBy(t, g)
	counts := map[string]int{}
	for _, p := range seen.Programs {
		counts[filepath.Base(p.Path)] += p.Count
		if p.Path == filepath.Join(dir, "here") && !slices.Equal(p.Args, []string{"./here", "a", "b"}) {
			t.Errorf("arguments %q", p.Args)
		}
	}
	if want := map[string]int{"sh": 2, "cp": 1, "here": 2}; !cmp.Equal(want, counts) {
		t.Errorf("programs %v, want %v: %+v", counts, want, seen)
	}
	if len(seen.Unseen) != 0 || len(seen.Connections) != 0 {
		t.Errorf("%+v", seen)
	}
}

func TestStormIsBounded(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	g := startGuest(t)
	if r := watched(t, g, stray("storm", "10000")); r.exit.Code != 0 {
		t.Fatalf("exit %+v: %s", r.exit, r.stderr)
	}
	if r := watched(t, g, sh("i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done")); r.exit.Code != 0 {
		t.Fatalf("exit %+v: %s", r.exit, r.stderr)
	}
	seen := seenBy(t, g)
	all := seen.More[observe.Connections]
	for _, c := range seen.Connections {
		all += c.Count
	}
	if all != 10_000 || len(seen.Connections) != observe.MaxConnections {
		t.Errorf("%d connections in %d lines, want 10000 in %d", all, len(seen.Connections), observe.MaxConnections)
	}
	i := slices.IndexFunc(seen.Programs, func(p observe.Program) bool { return p.Path == "/bin/true" })
	if i < 0 || seen.Programs[i].Count != 2000 {
		t.Errorf("programs %+v", seen.Programs)
	}
}

func TestHidingIsSeen(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Log("root reads all memory: hiding is not tried")
		return
	}
	g := startGuest(t)
	watched(t, g, stray("hide", ""))
	seen := seenBy(t, g)
	if len(seen.Connections) != 1 || seen.Connections[0].Address != hidden || !seen.Connections[0].Outside() {
		t.Errorf("connections %+v", seen.Connections)
	}
}

func TestWatchingCannotBeSilenced(t *testing.T) {
	t.Parallel()
	g, _ := startGuestWith(t, nil, NestedSandboxes)
	if r := watched(t, g, stray("silence", "")); r.exit.Code != 0 {
		t.Fatalf("exit %+v: %s", r.exit, r.stderr)
	}
	if seen := seenBy(t, g); len(seen.Connections) != 1 || seen.Connections[0].Address != "192.0.2.1:80" {
		t.Errorf("connections %+v", seen.Connections)
	}
}

// What programs may not ask of the kernel is refused, whether they are watched or not.
func TestProgramsAreFiltered(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	for _, what := range []string{"filter", "cores"} {
		if r := watched(t, g, stray(what, "")); r.exit.Code != 0 {
			t.Errorf("%s, watched: exit %+v: %s", what, r.exit, r.stderr)
		}
		p, err := g.Exec(t.Context(), stray(what, ""), false)
		must(t, err)
		if r := finish(p, strings.NewReader("")); r.err != nil || r.exit.Code != 0 {
			t.Errorf("%s: exit %+v, %v: %s", what, r.exit, r.err, r.stderr)
		}
	}
}

func TestFilesAreSeen(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	must(t, os.Mkdir(inner, 0o755))
	for _, name := range []string{"same", "gone", "grown", "forged"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o644))
	}
	watched(t, g, process.Spec{Args: []string{"sh", "-c", `
		rm gone; echo more >>grown
		touch -r forged then; printf 54321 >forged; touch -r then forged; rm then
		echo x >"$(printf 'inner/two\nlines')"; ln -s / root; mkfifo pipe; mkdir new`}, Dir: dir}, dir, inner, "/no/such/place")
	want := []observe.FileChange{
		{Path: dir + "/forged", What: "changed", Kind: "file", Size: 5},
		{Path: dir + "/gone", What: "removed", Kind: "file"},
		{Path: dir + "/grown", What: "changed", Kind: "file", Size: 10},
		{Path: dir + "/inner/two\nlines", What: "created", Kind: "file", Size: 2},
		{Path: dir + "/new", What: "created", Kind: "directory"},
		{Path: dir + "/pipe", What: "created", Kind: "special"},
		{Path: dir + "/root", What: "created", Kind: "link"},
	}
	seen := seenBy(t, g)
	if diff := cmp.Diff(want, seen.Files); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(seen.Unseen) != 0 {
		t.Errorf("unseen %v", seen.Unseen)
	}
}

func TestManyFilesAreBounded(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	dir := t.TempDir()
	r := watched(t, g, process.Spec{Args: []string{"sh", "-c", "seq -f f%g 21000 | xargs touch"}, Dir: dir}, dir)
	if r.exit.Code != 0 {
		t.Fatalf("%s", r.stderr)
	}
	seen := seenBy(t, g)
	if len(seen.Files) != observe.MaxFiles || seen.More[observe.Files] == 0 || seen.Unseen[observe.Files] == "" {
		t.Errorf("%d files, more %v, unseen %v", len(seen.Files), seen.More, seen.Unseen)
	}
}

func TestDeepFilesAreBounded(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	dir := t.TempDir()
	watched(t, g, process.Spec{Args: []string{"sh", "-c", "for i in $(seq 200); do mkdir d && cd d; done"}, Dir: dir}, dir)
	if seen := seenBy(t, g); len(seen.Files) > listDepth || seen.Unseen[observe.Files] == "" {
		t.Errorf("%d files, unseen %v", len(seen.Files), seen.Unseen)
	}
}

// A failure to start is told as without being watched.
func TestWatchedStartThatFails(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	for _, spec := range []process.Spec{
		{Args: []string{"/no/such/program"}}, {Args: []string{"/etc/passwd"}},
		{Args: []string{"true"}, Dir: "/no/such/place"},
	} {
		_, plain := g.Exec(t.Context(), spec, false)
		_, err := g.ExecWatched(t.Context(), spec, nil)
		if err == nil || plain == nil || err.Error() != plain.Error() {
			t.Errorf("%q: %v, want %v", spec.Args, err, plain)
		}
	}
}

func TestNothingWatched(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	if seen := seenBy(t, g); !cmp.Equal(seen, observe.Seen{More: map[string]int{}, Unseen: map[string]string{}}) {
		t.Errorf("%+v", seen)
	}
}

// Command program is what the suite of backends runs in containers, and process 1 of
// them where they are containers. Its first argument says what it does.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/sandbox/guest"
)

func main() {
	acts := map[string]func(args []string) error{
		"guest": guest.Main,
		"exit":  exit,
		"cat":   func([]string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
		"say":   func(a []string) error { fmt.Print(a[0]); fmt.Fprint(os.Stderr, a[1]); return nil },
		"flood": flood,
		"wait":  wait,
		"deaf":  deaf,
		"child": func(a []string) error { return leave(a[0], &syscall.SysProcAttr{}) },
		"stray": func(a []string) error { return leave(a[0], &syscall.SysProcAttr{Setsid: true}) },
		"count": count,
		"env":   func(a []string) error { fmt.Print(os.Getenv(a[0])); return nil },
		"dir":   func([]string) error { dir, err := os.Getwd(); fmt.Print(dir); return err },
		"read":  read,
		"tree":  tree,
		"swap":  swap,
		"close": func(a []string) error { return os.Chmod(a[0], 0) },
		"visit": visit,
		"fetch": func(a []string) error { return fetch(a[0]) },
		"serve": serve,
	}
	if len(os.Args) < 2 || acts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "no such act")
		os.Exit(2)
	}
	if err := acts[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err == nil {
		os.Exit(code)
	}
	return err
}

// flood writes as many bytes as it is told.
func flood(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	_, err = io.CopyN(os.Stdout, letters{}, n)
	return err
}

type letters struct{}

func (letters) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

func wait([]string) error {
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

func deaf([]string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	return wait(nil)
}

// leave starts a child that holds our output, and ends.
func leave(token string, how *syscall.SysProcAttr) error {
	child := exec.Command(os.Args[0], "wait", token)
	child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, how
	return child.Start()
}

// count tells how many other programs have an argument.
func count(args []string) error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, file := range all {
		line, err := os.ReadFile(file)
		if err == nil && file != fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) && slices.Contains(strings.Split(string(line), "\x00"), args[0]) {
			n++
		}
	}
	fmt.Print(n)
	return err
}

func read(args []string) error {
	content, err := os.ReadFile(args[0])
	fmt.Print(string(content))
	return err
}

// tree leaves what a stranger can leave in a directory.
func tree(args []string) error {
	in := func(name string) string { return filepath.Join(args[0], name) }
	return errors.Join(
		os.MkdirAll(in("deep/er"), 0o755),
		os.WriteFile(in("deep/er/file"), []byte("content"), 0o644),
		os.Symlink("/etc/passwd", in("absolute")),
		os.Symlink("../../../../../../etc", in("out")),
		os.Symlink("loop", in("loop")),
		syscall.Mkfifo(in("pipe"), 0o644),
		os.Mkdir(in("locked"), 0o755),
		os.WriteFile(in("locked/secret"), []byte("hidden"), 0),
		os.Chmod(in("locked"), 0),
		os.WriteFile(in("back\\slash\nand line"), []byte("odd"), 0o644),
	)
}

// swap puts a link in the place of a directory, where it may.
func swap(args []string) error {
	if err := os.Rename(args[0], args[0]+".moved"); err != nil {
		return err
	}
	return os.Symlink(args[1], args[0])
}

// visit asks a server of an mcp.json for what it says to a GET.
func visit(args []string) error {
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var config struct {
		Servers map[string]struct{ URL string } `json:"mcpServers"`
	}
	if err := json.Unmarshal(content, &config); err != nil {
		return err
	}
	return fetch(config.Servers[args[1]].URL)
}

// fetch writes what is at a URL.
func fetch(url string) error {
	client := http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// serve says a word to whoever connects to a port that it tells.
func serve(args []string) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(args[0], "0"))
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		_, err = io.WriteString(conn, "hello")
		if err := errors.Join(err, conn.Close()); err != nil {
			return err
		}
	}
}

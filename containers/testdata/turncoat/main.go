// Command turncoat is process 1 of a container that was taken over. The real guest is its
// child, and on request it betrays the runner.
//
//	turncoat guest      be process 1
//	turncoat act HOW    make process 1 end, freeze, or write garbage
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/sandbox/guest"
)

// place is the abstract socket for requests to process 1.
const place = "@turncoat"

func main() {
	var err error
	switch os.Args[1] {
	case "guest":
		err = rule()
	case "child":
		err = guest.Main(os.Args[2:])
	case "act":
		err = ask(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rule() error {
	signal.Ignore(syscall.SIGTERM)
	asked, err := net.Listen("unix", place)
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe", append([]string{"child"}, os.Args[2:]...)...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := asked.Accept()
			if err != nil {
				return
			}
			how, _ := io.ReadAll(conn)
			betray(string(how), child.Process)
			_ = conn.Close()
		}
	}()
	return child.Wait()
}

func betray(how string, real *os.Process) {
	switch how {
	case "end":
		os.Exit(0)
	case "freeze":
		_ = real.Signal(syscall.SIGSTOP)
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Print("this is no mux\n")
	}
}

func ask(how string) error {
	conn, err := net.Dial("unix", place)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, how); err != nil {
		return err
	}
	_ = conn.(*net.UnixConn).CloseWrite()
	_, err = io.ReadAll(conn)
	return err
}

// The command pause is the program in the only image on every node. It holds a pod's
// namespaces, and is what test pods run.
//
//	pause                 wait for a signal
//	pause cat             copy stdin to stdout
//	pause dial ADDRESS    fail unless a TCP connection is accepted within a second
//	pause listen ADDRESS  accept TCP connections
//	pause lookup HOST     print the host's addresses
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		<-ended
		return nil
	}
	argument := args[len(args)-1]
	switch args[0] {
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "dial":
		c, err := net.DialTimeout("tcp", argument, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	case "listen":
		l, err := net.Listen("tcp", argument)
		if err != nil {
			return err
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
	case "lookup":
		addresses, err := net.LookupHost(argument)
		fmt.Println(addresses)
		return err
	}
	return fmt.Errorf("unknown command %q", args[0])
}

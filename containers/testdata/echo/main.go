// Command echo is a service and its client in tests.
//
//	echo serve ADDRESS           echo everything that is received
//	echo ask ADDRESS CONNS SIZE  send SIZE bytes on each of CONNS concurrent connections,
//	                             close them for writing, and expect the same bytes back
//	echo hold ADDRESS CONNS      open connections, report that, and keep them open
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

func main() {
	commands := map[string]func(address string, numbers []int) error{"serve": serve, "ask": ask, "hold": hold}
	if len(os.Args) < 3 || commands[os.Args[1]] == nil {
		fmt.Println("no such command")
		os.Exit(2)
	}
	var numbers []int
	for _, arg := range os.Args[3:] {
		number, err := strconv.Atoi(arg)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		numbers = append(numbers, number)
	}
	if err := commands[os.Args[1]](os.Args[2], numbers); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func serve(address string, _ []int) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("serving")
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

func ask(address string, numbers []int) error {
	var asking sync.WaitGroup
	errs := make(chan error, numbers[0])
	for range numbers[0] {
		asking.Go(func() { errs <- askOnce(address, numbers[1]) })
	}
	asking.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func askOnce(address string, size int) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", len(got), err)
	}
	if !bytes.Equal(sent, got) {
		return fmt.Errorf("sent %d bytes, got %d others", len(sent), len(got))
	}
	return nil
}

func hold(address string, numbers []int) error {
	for range numbers[0] {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	select {}
}

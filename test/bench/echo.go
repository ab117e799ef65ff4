package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/moby/moby/client"
)

// echoSize is about the number of bytes of a captured call in each direction.
const echoSize = 400

// passes is the number of round trips that a captured call makes through the engine: one to
// the agent's container and one to the server's.
const passes = 2

// echoes has a container echo messages over an attached stream of the engine, and returns
// the durations in milliseconds. This is the lower bound for traffic of a container without
// a network.
func (b *bench) echoes(ctx context.Context, s shape) (_ []float64, err error) {
	ctr, err := s.role("server")
	if err != nil {
		return nil, err
	}
	ctr.conf.Cmd = []string{"echo"}
	made, err := b.createBare(ctx, ctr, "", netip.Prefix{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.engine.remove(context.WithoutCancel(ctx), made)) }()
	pipe, err := b.engine.ContainerAttach(ctx, made, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true})
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	if _, err := b.engine.ContainerStart(ctx, made, client.ContainerStartOptions{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, pipe.Close)
	defer stop()
	var took []float64
	for i := range b.sizes.Warm + b.sizes.Calls {
		begun := time.Now()
		if err := echo(pipe.Conn, pipe.Reader); err != nil {
			return nil, fmt.Errorf("echo: %w", err)
		}
		if i >= b.sizes.Warm {
			took = append(took, float64(time.Since(begun).Microseconds())/1000)
		}
	}
	return took, nil
}

// echo sends a message and reads it back. The engine puts a header of eight bytes in front
// of each chunk of output; the last four bytes are the length of the chunk.
func echo(out io.Writer, in io.Reader) error {
	if _, err := out.Write(make([]byte, echoSize)); err != nil {
		return err
	}
	for left := int64(echoSize); left > 0; {
		var header [8]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return err
		}
		part := int64(binary.BigEndian.Uint32(header[4:]))
		if _, err := io.CopyN(io.Discard, in, part); err != nil {
			return err
		}
		left -= part
	}
	return nil
}

// Command collector receives spans with the OTLP receiver of the OpenTelemetry Collector,
// and writes each request to stdout as a line of OTLP JSON. Its argument is its endpoint.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := receive(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func receive(ctx context.Context, endpoint string) error {
	write, err := consumer.NewTraces(func(_ context.Context, spans ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(spans)
		if err == nil {
			_, err = fmt.Printf("%s\n", line)
		}
		return err
	})
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	given := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": endpoint}}})
	if err := given.Unmarshal(config); err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, write)
	if err != nil {
		return err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	<-ctx.Done()
	return receiver.Shutdown(context.Background())
}

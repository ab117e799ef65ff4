package kubernetes

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // it would print what breaks where a connection is closed
	code := m.Run()
	// The client library keeps its connections to the API for the next client, and notices at its
	// next heartbeat that an attachment is closed.
	if err := goleak.Find(goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"), goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start")); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

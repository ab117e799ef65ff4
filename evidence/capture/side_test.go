package capture_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

func seenBy(side evidence.Side, f evidence.Frame) evidence.Frame { f.Side = side; return f }

// What a hook says and hears is not the agent's: neither calls, nor lists, nor gaps.
func TestHooksFrames(t *testing.T) {
	hook := func(f evidence.Frame) evidence.Frame { f.Sender = evidence.SenderHook; return f }
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	const all = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"get","description":"%s"}]}}`
	result := calls(t,
		hook(up(ask)), hook(up(list)), hook(down(strings.ReplaceAll(all, "%s", "one"))), hook(up(`{"jsonrpc`)), hook(down(`junk`)),
		up(ask), up(list), down(strings.ReplaceAll(all, "%s", "two")), hook(down(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)),
	)
	if len(result.Calls) != 1 || result.Calls[0].RequestFrame != 6 || result.Calls[0].SameAs != 0 || result.Calls[0].ResponseFrame != 0 {
		t.Errorf("calls are %+v", result.Calls)
	}
	if len(result.Gaps) > 0 || len(result.Catalogs) != 1 || result.Catalogs[0].Tools[0].First != 8 || len(result.Catalogs[0].Changes) > 0 {
		t.Errorf("%+v", result)
	}
}

// Where tools are kept from the agent, its own version of a list ends the request,
// and the catalogue tells what was kept.
func TestToolsKeptFromTheAgent(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	const all = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"},{"name":"b"}]}}`
	const some = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"b"}]}}`
	result := calls(t,
		up(list), seenBy(evidence.SideServer, down(all)), seenBy(evidence.SideAgent, down(some)),
		seenBy(evidence.SideAgent, up(ask)),
		synthetic(evidence.SyntheticHidden, seenBy(evidence.SideAgent, down(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: get"}}`))),
	)
	want := []evidence.Tool{{Name: "a", First: 2, Frame: 2, Hidden: true}, {Name: "b", First: 2, Frame: 3}}
	if diff := cmp.Diff(want, result.Catalogs[0].Tools, withoutDigests); diff != "" {
		t.Error(diff)
	}
	if len(result.Gaps) > 0 || len(result.Calls) != 1 || result.Calls[0].Outcome != evidence.OutcomeProtocolError {
		t.Errorf("%+v", result)
	}
	resumed := calls(t, up(list), synthetic(evidence.SyntheticAbandoned, up(`{"method":"notifications/cancelled","params":{"requestId":2}}`)), down(all))
	if len(resumed.Catalogs[0].Tools) != 2 {
		t.Errorf("a list for which the agent came back: %+v", resumed)
	}
	again := calls(t, up(list), seenBy(evidence.SideServer, down(all)), seenBy(evidence.SideAgent, down(some)), seenBy(evidence.SideServer, down(all)))
	if len(again.Catalogs[0].Tools) != 2 || again.Catalogs[0].Tools[1].Hidden {
		t.Errorf("a list that nobody asked for: %+v", again.Catalogs)
	}
}

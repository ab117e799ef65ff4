package capture_test

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// meaning writes a resolution in short: the tool, or the kind.
func meaning(r capture.Resolution) string {
	switch r.Kind {
	case capture.NameTool:
		return r.Tools[0].Server + "/" + r.Tools[0].Tool
	case capture.NameAmbiguous, capture.NameUnknown:
		return fmt.Sprint(r.Kind, " ", r.Tools)
	}
	return string(r.Kind)
}

func TestNameResolutionEdgeCases(t *testing.T) {
	for _, test := range edgeCases(t, "name_resolution") {
		t.Run(test.Reported, func(t *testing.T) {
			got := capture.Resolve(test.Servers, test.Reported)[0]
			var want struct{ Server, Tool *string }
			switch string(test.Expect) {
			case "null":
				if got.Kind != capture.NameUnknown {
					t.Errorf("%s: %+v", test.Why, got)
				}
				return
			case `"AMBIGUOUS"`:
				if got.Kind != capture.NameAmbiguous {
					t.Errorf("%s: %+v", test.Why, got)
				}
				return
			}
			if err := json.Unmarshal(test.Expect, &want); err != nil {
				t.Fatal(err)
			}
			if want.Server == nil {
				if got.Kind != capture.NameBuiltin {
					t.Errorf("%s: %+v", test.Why, got)
				}
				return
			}
			if got.Kind != capture.NameTool || got.Tools[0] != (evidence.ToolRef{Server: *want.Server, Tool: *want.Tool}) {
				t.Errorf("%s: %+v", test.Why, got)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	long := strings.Repeat("l", 70)
	servers := map[string][]string{
		"git-hub": {"get.issue", "list", long + "a", long + "b"},
		"git":     {"list", "hub-list"},
		"web":     {"fetch"},
		"quiet":   nil,
	}
	sum := sha1.Sum([]byte("mcp__git-hub__" + long + "b"))
	qualified := "mcp__git-hub__" + long + "a"
	for name, want := range map[string]string{
		"mcp__git_hub__get_issue": "git-hub/get.issue",
		"mcp__git-hub__get_issue": "git-hub/get.issue",
		"git_hub.get.issue":       "git-hub/get.issue",
		"git-hub_get_issue":       "git-hub/get.issue",
		"get.issue":               "git-hub/get.issue",
		"get_issue":               "git-hub/get.issue",
		"list":                    "ambiguous [{git list} {git-hub list}]",
		"git-hub-list":            "ambiguous [{git hub-list} {git-hub list}]",
		"mcp__git__list":          "git/list",
		"mcp__git__lists":         "unknown [{git lists}]",
		"git-hub/lists":           "unknown [{git hub/lists} {git-hub lists}]",
		"git-hub-lists":           "unknown [{git hub-lists} {git-hub lists}]",
		"mcp__quiet__anything":    "unknown [{quiet anything}]",
		"quiet_anything":          "builtin",
		"web_search":              "builtin",
		"web_fetch":               "web/fetch",
		"mcp__other__list":        "builtin",
		"List":                    "unknown []",
		"MCP__git__list":          "builtin",
		"":                        "builtin",
		"mcp__git__":              "builtin",
		qualified[:64]:            "ambiguous [{git-hub " + long + "a} {git-hub " + long + "b}]",
		qualified[:63]:            "unknown [{git-hub " + long[:49] + "}]",
		qualified:                 "git-hub/" + long + "a",
		"mcp__git-hub__llllllllll" + hex.EncodeToString(sum[:]):  "git-hub/" + long + "b",
		"mcp__git-hub__llllllllll" + strings.Repeat("0", 40):     "unknown [{git-hub llllllllll" + strings.Repeat("0", 40) + "}]",
		("mcp_git-hub_" + long)[:30] + "..." + (long + "b")[41:]: "git-hub/" + long + "b",
		("git-hub__" + long)[:28] + "___" + (long + "a")[39:]:    "git-hub/" + long + "a",
		(long + "a")[:64]: "ambiguous [{git-hub " + long + "a} {git-hub " + long + "b}]",
	} {
		if got := meaning(capture.Resolve(servers, name)[0]); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	bare := capture.Resolve(servers, "fetch", "web-fetch", "list", "bash", "get_issue")
	var got []bool
	for _, r := range bare {
		got = append(got, r.Bare)
	}
	if diff := cmp.Diff([]bool{true, false, true, false, true}, got); diff != "" {
		t.Errorf("bare names: %s", diff)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("git", "git-hub", "list", "mcp__git__list")
	f.Add("a", "a_b", "b_c", "a_b_c")
	f.Add("", "", "", "")
	f.Add("é", "\xff", strings.Repeat("é", 40), "mcp__é__")
	f.Fuzz(func(t *testing.T, one, two, tool, name string) {
		r := capture.Resolve(map[string][]string{one: {tool}, two: {name}}, name, "mcp__"+one+"__"+tool)
		if two != "" && name != "" && !r[0].Bare && len(r[0].Tools) == 0 {
			t.Errorf("%q is a tool's name and resolves to %+v", name, r[0])
		}
		if tool != "" && len(r[1].Tools) == 0 {
			t.Errorf("a qualified name resolves to %+v", r[1])
		}
	})
}

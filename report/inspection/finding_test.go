package inspection

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
)

// A server that speaks of another's tool has a finding, and none for speaking of its
// own.
func TestFindOthersTools(t *testing.T) {
	t.Parallel()
	listing := func(name, description string) Server {
		raw := []byte(`{"name":"` + name + `","description":"` + description + `"}`)
		return Server{Name: name, Catalog: catalog.Catalog{Lists: []catalog.List{{Kind: catalog.Tools, Entries: []catalog.Entry{catalog.NewEntry(catalog.Tools, raw)}}}}}
	}
	r := Report{Servers: []Server{
		listing("send_mail", "Sends mail; send_mail takes an address."),
		listing("lookup", "Looks up; see send_mail."),
	}}
	r.Find()
	if found := r.Servers[0].Findings.Places; len(found) != 0 {
		t.Errorf("its own: %v", found)
	}
	if found := r.Servers[1].Findings.Places; len(found) != 1 || found[0].Kind != finding.Others {
		t.Errorf("another's: %v", found)
	}
}

// A tool that is listed twice is a finding in the page and in the document.
func TestFindDuplicate(t *testing.T) {
	t.Parallel()
	l := catalog.List{Kind: catalog.Tools}
	for _, description := range []string{"Adds.", "Removes."} {
		l.Entries = append(l.Entries, catalog.NewEntry(l.Kind, []byte(`{"name":"change","description":"`+description+`"}`)))
	}
	r := Report{Servers: []Server{{Name: "s", Remote: true, Catalog: catalog.Catalog{Lists: []catalog.List{l}}}}}
	r.Find()
	var page strings.Builder
	if err := Print(&page, r, Options{}); err != nil {
		t.Fatal(err)
	}
	doc, err := r.Document()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{page.String(): "duplicate     tool change\n", string(doc): `"kind": "duplicate"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

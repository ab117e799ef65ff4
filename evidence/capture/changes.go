package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxChanges is the maximum number of changes of each kind that are kept for a server. A separate limit keeps
// one kind from crowding out another.
const maxChanges = 1000

// changes are the changes of one server's tools.
type changes struct {
	kept  []evidence.Change
	count map[evidence.ChangeKind]int // including those that are not kept
}

func (cs *changes) add(f evidence.Frame, tool string, what evidence.ChangeKind, before, after string) {
	if cs.count == nil {
		cs.count = map[evidence.ChangeKind]int{}
	}
	if cs.count[what]++; cs.count[what] > maxChanges {
		return
	}
	before, after = parting(before, after, maxDiffering, maxDiffering/4)
	cs.kept = append(cs.kept, evidence.Change{Server: f.Server, Tool: tool, What: what, Frame: f.Seq, Before: before, After: after})
}

// compare adds the differences between two versions of a tool. It compares JSON by value, so a mere change of
// formatting is no difference.
func (cs *changes) compare(f evidence.Frame, before, after *version) {
	if !defence.ComparedTools || before.tool.Digest == after.tool.Digest {
		return
	}
	was, is, name := before.tool, after.tool, after.name()
	described, schema, hints := was.Description == is.Description, jsontext.Same(was.InputSchema, is.InputSchema), jsontext.Same(was.Annotations, is.Annotations)
	if !described {
		cs.add(f, name, evidence.ChangedDescription, was.Description, is.Description)
	}
	if !schema {
		cs.add(f, name, evidence.ChangedInputSchema, string(was.InputSchema), string(is.InputSchema))
	}
	switch {
	case reads(after) && !reads(before):
		cs.add(f, name, evidence.ChangedToReadOnly, string(was.Annotations), string(is.Annotations))
	case !hints:
		cs.add(f, name, evidence.ChangedAnnotations, string(was.Annotations), string(is.Annotations))
	}
	if described && schema && hints {
		cs.add(f, name, evidence.ChangedOther, "", "")
	}
}

// reads reports whether a tool is listed as read-only.
func reads(v *version) bool { return v.readOnly != nil && *v.readOnly }

// maxDiffering is the maximum number of bytes kept of each side of a change.
const maxDiffering = 400

// hashOf returns the hash of a server's tools, except removed ones; see [evidence.Catalog].
func hashOf(tools []evidence.Tool) string {
	there := slices.DeleteFunc(slices.Clone(tools), func(t evidence.Tool) bool { return t.Removed > 0 })
	slices.SortFunc(there, func(a, b evidence.Tool) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for _, t := range there {
		sum.Write([]byte(t.Digest))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

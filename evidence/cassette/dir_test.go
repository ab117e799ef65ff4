package cassette

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// readAll returns the content of the files below a directory.
func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// randomSide returns a side with anything in it.
func randomSide(r *rand.Rand) *Side {
	words := []string{"a", "set", "", "two words", "line\nline\n", "1.0", "é\u2028\U0001f600", "{{ x }}", "# a", strings.Repeat("long ", 40), " x", "true", "<&>", "a: b", "\x00\x1b"}
	word := func() string { return words[r.IntN(len(words))] }
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(9); {
		case n == 0 && depth < 90:
			return map[string]any{word(): value(depth + 1), word(): value(depth + 1), "z": 1}
		case n == 1 && depth < 90:
			return []any{value(depth + 1), value(depth + 1)}
		case n == 2:
			return nil
		case n == 3:
			return json.Number([]string{"1.50", "-0", "1e3", "123456789012345678901234567890"}[r.IntN(4)])
		case n == 4:
			return strings.Repeat(word()+"\n", r.IntN(400))
		}
		return word()
	}
	raw := func(v any) json.RawMessage {
		data, err := jsontext.Marshal(v)
		if err != nil {
			panic(err)
		}
		return data
	}
	deep := func() json.RawMessage { return json.RawMessage(strings.Repeat("[", 70) + strings.Repeat("]", 70)) }
	answer := func() Answer {
		a := Answer{Value: raw(value(0)), DelayMS: r.IntN(3)}
		switch r.IntN(8) {
		case 0:
			a.Value = deep()
		case 1:
			a.Value = json.RawMessage(`{"twice":1,"twice":"\ud800"}`)
		case 2:
			a.Value = json.RawMessage(`{"b": 1, "a": [1 ,2]}`)
		}
		return a
	}
	s := &Side{Find: []string{"", ByMatch, InSequence}[r.IntN(3)]}
	if r.IntN(2) == 0 {
		s.State = map[string]json.RawMessage{"paid": raw(value(0))}
	}
	for i := range 1 + r.IntN(4) {
		e := Entry{Name: fmt.Sprint("entry ", i), Kind: match.Matchers{"tool": raw(map[string]any{"equals": word()})}}
		if r.IntN(2) == 0 {
			e.Match = match.Matchers{"arguments": raw(map[string]any{"equals": value(0)}), "arguments.x": raw(map[string]any{"regex": "^[0-9]"})}
		}
		if i > 0 && r.IntN(3) == 0 {
			e.After = "entry 0"
		}
		if s.State != nil && r.IntN(3) == 0 {
			e.Set = map[string]json.RawMessage{"paid": raw(value(0))}
		}
		if r.IntN(2) == 0 {
			e.Answers = []Answer{answer(), answer()}
		} else {
			one := answer()
			e.Answer, e.Times = &one, r.IntN(3)
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// The answers of a side are more than one file may hold.
func TestManyAnswers(t *testing.T) {
	s := &Side{}
	for i := range 3000 {
		s.Entries = append(s.Entries, Entry{Answer: &Answer{Value: Matcher("equals", strings.Repeat(fmt.Sprint(i, " "), 100))}, Times: 1})
	}
	all, err := (&Cassette{Sides: map[Kind]map[string]*Side{Servers: {"crm": s}}}).files() // which are read back
	if err != nil || len(all) < len(s.Entries)/2 {
		t.Errorf("%d files, %v", len(all), err)
	}
}

// What is written is read as what it was, and written again in the same bytes.
func TestReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cassette")
	exported := cmp.Options{cmpopts.IgnoreUnexported(Side{}, Entry{}), cmpopts.IgnoreFields(Cassette{}, "Files"), cmpopts.EquateEmpty()}
	inlined, apart := 0, 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := &Cassette{Sides: map[Kind]map[string]*Side{Servers: {"crm": randomSide(r), "B_1": randomSide(r)}, Commands: {"az.exe": randomSide(r)}}}
		if seed%2 == 0 {
			c.Add(Models, "main", randomSide(r))
			c.Tasks = map[string]*Cassette{"pay-1": {Sides: map[Kind]map[string]*Side{Servers: {"new": randomSide(r)}, Models: {"main": {Entries: []Entry{{Answer: &Answer{Value: json.RawMessage("1")}}}}}}}}
		}
		if err := c.Write(dir); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		written := readAll(t, dir)
		got, err := Read(dir)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(c, got, exported); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if err := got.Write(dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(written, readAll(t, dir)); diff != "" {
			t.Fatalf("seed %d: written again: %s", seed, diff)
		}
		for name, content := range written {
			if strings.HasPrefix(name, blobs) {
				apart++
			}
			inlined += strings.Count(content, "value:")
		}
	}
	if inlined == 0 || apart == 0 {
		t.Errorf("%d values in files of sides, %d beside them", inlined, apart)
	}
}

// A task has its own entries before those of all tasks, and what is set in both as it sets it.
func TestOfTask(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		head:                       "version: 1",
		"servers/x.yaml":           "find: sequence\nstate: {a: 1, b: 1}\nentries: [{match: {k: 1}, answer: {value: shared}}]",
		"tasks/pay/servers/x.yaml": "find: match\nstate: {b: 2}\nentries: [{match: {k: 2, state: {a: 1, b: 2}}, times: 1, answer: {value: own}}]",
	} {
		place(t, filepath.Join(dir, name), text)
	}
	c, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string][]string{
		"pay":  {"1 shared", "2 own", "2 no entry answers {\"k\":2}: entries[0] of tasks/pay/servers/x.yaml has given all its answers; find: sequence would give it entries[0] of servers/x.yaml"},
		"else": {"2 shared"},
	} {
		s, err := c.Side(Servers, task, "x")
		if err != nil {
			t.Fatal(err)
		}
		play := s.Play()
		for _, line := range want {
			k, want, _ := strings.Cut(line, " ")
			given, miss := play.Ask("", map[string]any{"k": json.Number(k)})
			got := jsontext.Text(given.Value)
			if miss != nil {
				got = miss.Error()
			}
			if got != want {
				t.Errorf("task %s: %s is answered %q, want %q", task, k, got, want)
			}
		}
	}
	if s, err := c.Side(Models, "pay", "x"); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// A directory that is no cassette is left as it is.
func TestWriteOverNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&Cassette{}).Write(dir)
	if err == nil || !strings.Contains(err.Error(), `has "mine", which is no part of a cassette`) {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "x"}, readAll(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// What cannot be read again is not written.
func TestNotWritten(t *testing.T) {
	for want, c := range map[string]*Cassette{
		`"../x" cannot be the name`: {Sides: map[Kind]map[string]*Side{Servers: {"../x": {}}}},
		"entries has no value":      {Sides: map[Kind]map[string]*Side{Servers: {"x": {}}}},
		"is not JSON":               {Sides: map[Kind]map[string]*Side{Servers: {"x": {Entries: []Entry{{Answer: &Answer{Value: json.RawMessage("{")}}}}}}},
		"kind.a.set: must be":       {Sides: map[Kind]map[string]*Side{Servers: {"x": {Entries: []Entry{{Kind: match.Matchers{"a": json.RawMessage(`{"set":1}`)}, Answer: &Answer{Value: json.RawMessage("1")}}}}}}},
	} {
		if err := c.Write(filepath.Join(t.TempDir(), "c")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Cassettes come from anywhere: what they name stays inside, and none fills the memory.
func TestHostile(t *testing.T) {
	const version = "version: 1\n"
	digest := strings.Repeat("a", 64)
	side := func(answer string) string { return "entries: [{answer: " + answer + "}]" }
	type dir map[string]string
	for want, content := range map[string]dir{
		"cassette.yaml: no such file":                                {"servers/x.yaml": side("{value: 1}")},
		"version must be at most 1":                                  {head: "version: 2"},
		`"notes.txt" is no part of a cassette; remove it`:            {head: version, "notes.txt": "x"},
		`servers: "x.yml" is not the name of a side`:                 {head: version, "servers/x.yml": side("{value: 1}")},
		`servers: ".x.yaml" is not the name of a side`:               {head: version, "servers/.x.yaml": side("{value: 1}")},
		"servers/x.yaml: is a directory":                             {head: version, "servers/x.yaml/y": "x"},
		"give an answer a value or a blob":                           {head: version, "servers/x.yaml": side("{}")},
		"entries[0]: give an answer a value or":                      {head: version, "servers/x.yaml": side("{value: 1, blob: " + digest + "}")},
		`blob "../../etc/passwd" is not a SHA-256`:                   {head: version, "servers/x.yaml": side("{blob: ../../etc/passwd}")},
		"blobs: no such file":                                        {head: version, "models/x.yaml": side("{blob: " + digest + "}")},
		"blobs/" + digest + " has another content than was recorded": {head: version, "commands/x.yaml": side("{blob: " + digest + "}"), "blobs/" + digest: "1"},
		"is not JSON": {head: version, "commands/x.yaml": side("{blob: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}"), "blobs/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881": "x"},
		"blobs/" + digest + ": is larger than 32768 KiB":              {head: version, "models/x.yaml": side("{blob: " + digest + "}"), "blobs/" + digest: "HUGE"},
		"servers/x.yaml: is larger than 1024 KiB":                     {head: version, "servers/x.yaml": "HUGE"},
		"servers is a link":                                           {head: version, "servers": "-> /etc"},
		"servers/x.yaml is a link":                                    {head: version, "servers/x.yaml": "-> /etc/passwd"},
		"cassette.yaml is a link":                                     {head: "-> ../else"},
		"blobs/" + strings.Repeat("b", 64) + " is a link":             {head: version, "servers/x.yaml": side("{blob: " + strings.Repeat("b", 64) + "}"), "blobs/" + strings.Repeat("b", 64): "-> ../cassette.yaml"},
		"blobs is a link":                                             {head: version, "servers/x.yaml": side("{blob: " + digest + "}"), "blobs": "-> servers"},
		"with its aliases written out":                                {head: version, "servers/x.yaml": bomb()},
		"entries[0].after: it waits for itself, so it would never be": {head: version, "servers/x.yaml": "entries: [{name: a, after: b, answer: {value: 1}}, {name: b, after: a, answer: {value: 1}}]"},
		"has more than 1000 files":                                    {head: version, "servers": "MANY"},
		"tasks is a link":                                             {head: version, "tasks": "-> /etc"},
		"tasks/a is a link":                                           {head: version, "tasks/a": "-> /etc"},
		`tasks: ".a" is not the id of a task`:                         {head: version, "tasks/.a/servers/x.yaml": side("{value: 1}")},
		`"tasks/a/tasks" is no part of a cassette`:                    {head: version, "tasks/a/tasks/b/servers/x.yaml": side("{value: 1}")},
		`servers/x of task a: entries[1]: the name "n" appears twice`: {
			head: version, "servers/x.yaml": "entries: [{name: n, answer: {value: 1}}]", "tasks/a/servers/x.yaml": "entries: [{name: n, answer: {value: 1}}]",
		},
	} {
		at := t.TempDir()
		for name, text := range content {
			place(t, filepath.Join(at, strings.TrimSuffix(name, "/")), text)
		}
		_, err := Read(at)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.TrimSpace(err.Error()), "root:") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// bomb returns a side whose aliases are much when written out.
func bomb() string {
	text := "state:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text + "entries: [{answer: {value: 1}}]\n"
}

// place makes a file, or what a hostile directory has in its place.
func place(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	target, isLink := strings.CutPrefix(text, "-> ")
	var err error
	switch {
	case isLink:
		err = os.Symlink(target, path)
	case text == "HUGE":
		if err = os.WriteFile(path, nil, 0o600); err == nil {
			err = os.Truncate(path, 1<<40)
		}
	case text == "MANY":
		if err = os.Mkdir(path, 0o755); err != nil {
			break
		}
		for i := range 1001 {
			if err = os.WriteFile(filepath.Join(path, fmt.Sprint(i, ".yaml")), nil, 0o600); err != nil {
				break
			}
		}
	default:
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever a cassette's files have, and whatever their names, they are refused with the cassette's name, or are read
// from its directory alone.
func FuzzRead(f *testing.F) {
	f.Add("version: 1", "x.yaml", strings.Repeat("a", 64), []byte("1"))
	f.Add("version: 1\n", "x.yaml", "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b", []byte("1"))
	f.Add("{version: 1.0}", ".x.yaml", "../../outside", []byte("{"))
	f.Add("version: 1\nmore: 2", "x.yaml.yaml", "../servers/x.yaml", []byte{0xff})
	f.Fuzz(func(t *testing.T, first, name, digest string, value []byte) {
		at := t.TempDir()
		dir := filepath.Join(at, "cassette")
		place(t, filepath.Join(dir, head), first)
		place(t, filepath.Join(at, "outside"), `"outside"`)
		side := fmt.Sprintf("entries: [{answer: {blob: %s}}]", jsontext.Encode(digest))
		for name, content := range map[string]string{path.Join(string(Servers), name): side, path.Join(blobs, digest): string(value)} {
			if file := filepath.Join(dir, filepath.FromSlash(name)); filepath.IsLocal(name) && len(name) < 100 && !strings.Contains(name, "\x00") && os.MkdirAll(filepath.Dir(file), 0o755) == nil {
				_ = os.WriteFile(file, []byte(content), 0o600) // a name may be none, or taken
			}
		}
		c, err := Read(dir)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "cassette "+dir+": ") {
				t.Errorf("no name in %q", err)
			}
			return
		}
		if got := jsontext.Encode(c.Sides); strings.Contains(got, "outside") && !bytes.Contains(value, []byte("outside")) {
			t.Errorf("%s is in no file of the cassette", got)
		}
	})
}

// Whatever the file of a side has, it is refused with its name, or plays and is written as itself.
func FuzzSide(f *testing.F) {
	for _, seed := range []string{
		recorded,
		"find: sequence\nstate: {a: [1]}\nentries:\n- {name: a, kind: {x: {equals: {y: 1}}}, set: {a: null}, answers: [{value: null, delay_ms: 1}, {value: {b: 1.0}}]}\n- {after: a, times: 2, answer: {value: x}}",
		"entries: [{answer: {blob: x}}]",
	} {
		f.Add(seed, `{"x":{"y":1},"tool":"a"}`)
	}
	f.Fuzz(func(t *testing.T, text, asked string) {
		blob := func(string) (json.RawMessage, error) { return json.RawMessage(`"blob"`), nil }
		s, err := readSide("servers/x.yaml", []byte(text), blob)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "servers/x.yaml:") {
				t.Errorf("no place in %q", err)
			}
			return
		}
		if value, err := jsontext.Parse([]byte(asked)); err == nil {
			if request, is := value.(map[string]any); is {
				player := s.Play()
				for range 3 {
					if given, miss := player.Ask("", request); miss == nil && !jsontext.Valid(given.Value) || miss != nil && miss.Error() == "" {
						t.Errorf("%s gets %+v and %v", asked, given, miss)
					}
				}
			}
		}
		all := map[string][]byte{}
		content, err := s.file(maxInline, all)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.isIn(content, all); err != nil && len(content) < 1<<20 {
			t.Errorf("%v\n%s", err, content)
		}
	})
}

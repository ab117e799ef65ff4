package mcpconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

// database is a valid service, changed.
func database(change func(*mcpconfig.Service)) mcpconfig.Server {
	s := &mcpconfig.Service{
		Image: "postgres", Ports: []int{5432}, Env: map[string]string{"PASSWORD": "${TOKEN}"},
		Ready: &mcpconfig.Ready{Exec: []string{"pg_isready"}},
	}
	if change != nil {
		change(s)
	}
	return mcpconfig.Server{Image: "i", Port: 80, Services: map[string]*mcpconfig.Service{"db": s}}
}

func TestValidateServices(t *testing.T) {
	named := func(name string) mcpconfig.Server {
		s := database(nil)
		s.Services[name] = s.Services["db"]
		return s
	}
	many := database(nil)
	for i := range mcpconfig.MaxServices {
		many.Services["s"+strings.Repeat("0", i%50)+string(rune('a'+i/50))] = many.Services["db"]
	}
	for name, tc := range map[string]struct {
		in   mcpconfig.Server
		want string // in the error; empty: valid
	}{
		"valid":              {database(nil), ""},
		"health":             {database(func(s *mcpconfig.Service) { s.Ready = &mcpconfig.Ready{Health: true} }), ""},
		"all of it":          {database(func(s *mcpconfig.Service) { s.User, s.Writable, s.Memory = "postgres", []string{"/data"}, "1g" }), ""},
		"variables":          {database(func(s *mcpconfig.Service) { s.User, s.Writable, s.Memory = "${U}", []string{"${D}"}, "${M}" }), ""},
		"reserved name":      {named("localhost"), "services.localhost: the name is taken"},
		"the server's name":  {named("s"), "services.s: the name is taken"},
		"no host name":       {named("a_b"), `services.a_b: "a_b" is not a host name`},
		"too many":           {many, "a server has at most 254"},
		"with a url":         {mcpconfig.Server{URL: "http://h", Services: database(nil).Services}, "services cannot be combined with url"},
		"nothing":            {mcpconfig.Server{Image: "i", Services: map[string]*mcpconfig.Service{"db": nil}}, "services.db: there is nothing to remove it from"},
		"no image":           {database(func(s *mcpconfig.Service) { s.Image = "" }), "services.db needs an image"},
		"blank in image":     {database(func(s *mcpconfig.Service) { s.Image = "a b" }), "services.db.image must not hold blanks"},
		"args alone":         {database(func(s *mcpconfig.Service) { s.Args = []string{"a"} }), "services.db.args need a command"},
		"no port":            {database(func(s *mcpconfig.Service) { s.Ports = nil }), "services.db.ports: name at least one port"},
		"port twice":         {database(func(s *mcpconfig.Service) { s.Ports = []int{1, 1} }), "services.db.ports: 1 appears twice"},
		"the server's port":  {database(func(s *mcpconfig.Service) { s.Ports = []int{80} }), "services.db.ports: 80 is the port of the server itself"},
		"never ready":        {database(func(s *mcpconfig.Service) { s.Ready = nil }), "services.db.ready: give either exec"},
		"empty ready":        {database(func(s *mcpconfig.Service) { s.Ready = &mcpconfig.Ready{Timeout: 1} }), "services.db.ready: give either exec"},
		"ready in two ways":  {database(func(s *mcpconfig.Service) { s.Ready.Health = true }), "services.db.ready: give either exec"},
		"empty check":        {database(func(s *mcpconfig.Service) { s.Ready.Exec = []string{""} }), "services.db.ready.exec[0] must not be empty"},
		"root":               {database(func(s *mcpconfig.Service) { s.User = "00:0" }), "services.db.user must not be root"},
		"odd user":           {database(func(s *mcpconfig.Service) { s.User = "a b" }), "services.db.user must be"},
		"relative directory": {database(func(s *mcpconfig.Service) { s.Writable = []string{"/a", "b"} }), "services.db.writable[1] must be"},
		"root directory":     {database(func(s *mcpconfig.Service) { s.Writable = []string{"/"} }), "services.db.writable[0] cannot be /"},
		"file":               {database(func(s *mcpconfig.Service) { s.Files = map[string]string{"a": "b"} }), `services.db.files: "a" must be an absolute path`},
		"memory":             {database(func(s *mcpconfig.Service) { s.Memory = "much" }), "services.db.memory is not a size"},
		"odd env":            {database(func(s *mcpconfig.Service) { s.Env = map[string]string{"A=B": "c"} }), `services.db.env: "A=B" is not a variable's name`},
		"NUL":                {database(func(s *mcpconfig.Service) { s.Ready.Exec = []string{"a", "\x00"} }), "services.db.ready.exec[1] must not hold a NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			err := mcpconfig.Validate("s", tc.in)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestExpandServices(t *testing.T) {
	in := database(nil)
	got, values, err := mcpconfig.Expand("s", in, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if got.Services["db"].Env["PASSWORD"] != "s3cret" || !cmp.Equal(values, []mcpconfig.Value{{Variable: "TOKEN", Text: "s3cret"}}) {
		t.Errorf("%+v, values %q", got.Services["db"], values)
	}
	if in.Services["db"].Env["PASSWORD"] != "${TOKEN}" {
		t.Error("the argument is changed")
	}
	in.Services["db"].Ready.Exec = []string{"check", "${NONE}"}
	_, _, err = mcpconfig.Expand("s", in, lookup)
	if want := `server "s": services.db.ready.exec[1] needs the variable NONE`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMergeServices(t *testing.T) {
	eval := map[string]*mcpconfig.Server{"s": {Image: "i", Services: map[string]*mcpconfig.Service{
		"db":    {Image: "postgres", Env: map[string]string{"A": "1", "B": "2"}, Ports: []int{1}},
		"cache": {Image: "redis"},
	}}}
	got, err := mcpconfig.Merge(eval, map[string]*mcpconfig.Server{"s": {Services: map[string]*mcpconfig.Service{
		"db":    {Env: map[string]string{"B": "3"}, Ports: []int{2}},
		"cache": nil,
		"queue": {Image: "nats"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]mcpconfig.Server{"s": {Image: "i", Services: map[string]*mcpconfig.Service{
		"db":    {Image: "postgres", Env: map[string]string{"A": "1", "B": "3"}, Ports: []int{2}},
		"queue": {Image: "nats"},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if db := eval["s"].Services["db"]; db.Env["B"] != "2" || db.Ports[0] != 1 {
		t.Error("an argument is changed")
	}
	_, err = mcpconfig.Merge(eval, map[string]*mcpconfig.Server{"s": {Services: map[string]*mcpconfig.Service{"none": nil}}})
	if want := `server "s": services.none: the eval does not declare it, so it cannot be removed`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

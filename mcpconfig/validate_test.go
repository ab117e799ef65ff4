package mcpconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		in   mcpconfig.Server
		want string // in the error; empty: valid
	}{
		"command":                  {mcpconfig.Server{Command: "run"}, ""},
		"command in an image":      {mcpconfig.Server{Command: "run", Image: "i", Args: []string{"a"}, Cwd: "/srv"}, ""},
		"image alone":              {mcpconfig.Server{Image: "i", Type: "stdio"}, ""},
		"url":                      {mcpconfig.Server{URL: "http://h", Headers: map[string]string{"Authorization": "Bearer ${T}"}}, ""},
		"http in a container":      {mcpconfig.Server{Command: "run", Type: "http", Port: 80, Path: "/mcp"}, ""},
		"port says http":           {mcpconfig.Server{Image: "i", Port: 80}, ""},
		"variables are not judged": {mcpconfig.Server{Command: "run", Limits: mcpconfig.Limits{Memory: "${M}"}, Cwd: "${C}", Files: map[string]string{"/a": "${F}"}}, ""},
		"nothing":                  {mcpconfig.Server{}, "it has no command, image or url; add one of them"},
		"only args":                {mcpconfig.Server{Args: []string{"x"}}, "it has no command, image or url; add one of them"},
		"url and command":          {mcpconfig.Server{URL: "http://h", Command: "run"}, "command cannot be combined with url"},
		"url and image":            {mcpconfig.Server{URL: "http://h", Image: "i"}, "image cannot be combined with url"},
		"url and env":              {mcpconfig.Server{URL: "http://h", Env: map[string]string{"A": "b"}}, "env cannot be combined with url"},
		"url and stdio":            {mcpconfig.Server{URL: "http://h", Type: "stdio"}, "type stdio does not go with url"},
		"http without port":        {mcpconfig.Server{Command: "run", Type: "http"}, "type http needs a port"},
		"stdio with port":          {mcpconfig.Server{Command: "run", Type: "stdio", Port: 1}, "port does not go with type stdio"},
		"path without port":        {mcpconfig.Server{Command: "run", Path: "/x"}, "path needs a port"},
		"path without slash":       {mcpconfig.Server{Command: "run", Port: 1, Path: "x"}, "path must begin with /"},
		"headers of a command":     {mcpconfig.Server{Command: "run", Headers: map[string]string{"A": "b"}}, "headers go with url only"},
		"args of an image":         {mcpconfig.Server{Image: "i", Args: []string{"x"}}, ""},
		"user and places":          {mcpconfig.Server{Image: "i", User: "app:${GROUP}", Writable: []string{"/data", "${DIR}"}, Pull: "never", Platform: "linux/amd64"}, ""},
		"root":                     {mcpconfig.Server{Image: "i", User: "0:1000"}, "user must not be root"},
		"odd user":                 {mcpconfig.Server{Image: "i", User: "a b"}, "user must be a user or uid"},
		"relative place":           {mcpconfig.Server{Image: "i", Writable: []string{"/a", "b"}}, "writable[1] must be an absolute path"},
		"reserved place":           {mcpconfig.Server{Image: "i", Writable: []string{"/usr/lib"}}, "writable[0] cannot be /usr/lib"},
		"odd platform":             {mcpconfig.Server{Image: "i", Platform: "amd64"}, "platform must be of the form linux/amd64"},
		"url and user":             {mcpconfig.Server{URL: "http://h", User: "app"}, "user cannot be combined with url"},
		"url and writable":         {mcpconfig.Server{URL: "http://h", Writable: []string{"/a"}}, "writable cannot be combined with url"},
		"url and egress":           {mcpconfig.Server{URL: "http://h", Egress: []mcpconfig.Egress{{Host: "a.example"}}}, "egress cannot be combined with url"},
		"egress":                   {mcpconfig.Server{Image: "i", Egress: []mcpconfig.Egress{{Host: "a.example"}, {Host: "${HOST}"}}}, ""},
		"egress to itself":         {mcpconfig.Server{Image: "i", Egress: []mcpconfig.Egress{{Host: "s:443"}}}, "s is a name that the trial itself has"},
		"egress to a service":      {mcpconfig.Server{Image: "i", Egress: []mcpconfig.Egress{{Host: "db:443"}}, Services: map[string]*mcpconfig.Service{"db": {Image: "i", Ports: []int{1}, Ready: &mcpconfig.Ready{Health: true}}}}, "db is a name that the trial itself has"},
		"egress at its own port":   {mcpconfig.Server{Image: "i", Port: 80, Egress: []mcpconfig.Egress{{Host: "a.example"}}}, "80 is the port of the server itself"},
		"egress and the proxy":     {mcpconfig.Server{Image: "i", Port: 3128, Egress: []mcpconfig.Egress{{Host: "a.example"}}}, "port 3128 is taken by egress"},
		"odd egress":               {mcpconfig.Server{Image: "i", Egress: []mcpconfig.Egress{{Host: "${HOST}"}, {Host: "https://a.example"}}}, "egress[1] must be HOST:PORT"},
		"odd header":               {mcpconfig.Server{URL: "http://h", Headers: map[string]string{"A b": "c"}}, `"A b" is not a header's name`},
		"header of the session":    {mcpconfig.Server{URL: "http://h", Headers: map[string]string{"MCP-Session-ID": "c"}}, `headers: MCP-Session-ID is set by waza`},
		"header of two lines":      {mcpconfig.Server{URL: "http://h", Headers: map[string]string{"A": "b\nc"}}, `headers.A must not hold line breaks`},
		"url with a proxy":         {mcpconfig.Server{URL: "https://h/mcp?key=k", Proxy: "http://u:p@proxy:3128"}, ""},
		"url without scheme":       {mcpconfig.Server{URL: "h/mcp"}, "url must be a URL that begins with http://"},
		"url of a file":            {mcpconfig.Server{URL: "file:///etc/passwd"}, "url must be a URL that begins with http://"},
		"url without a host":       {mcpconfig.Server{URL: "http:///mcp"}, "names a host"},
		"url with a user":          {mcpconfig.Server{URL: "https://u:p@h/mcp"}, "url must not hold a user or password; set headers.Authorization"},
		"url with a fragment":      {mcpconfig.Server{URL: "https://h/mcp#x"}, "url must not hold a fragment"},
		"proxy of another kind":    {mcpconfig.Server{URL: "https://h", Proxy: "socks5://p"}, "proxy must be a URL that begins with http://"},
		"url with addresses":       {mcpconfig.Server{URL: "https://h", Addresses: []string{"10.0.0.0/8", "192.0.2.7", "fd00::/8", "${NET}"}}, ""},
		"addresses by name":        {mcpconfig.Server{URL: "https://h", Addresses: []string{"10.0.0.1", "db.example"}}, "addresses[1] is neither an IP address nor a CIDR range"},
		"addresses with odd bits":  {mcpconfig.Server{URL: "https://h", Addresses: []string{"10.1.2.3/8"}}, "addresses[0] is neither an IP address nor a CIDR range"},
		"addresses and a proxy":    {mcpconfig.Server{URL: "https://h", Proxy: "http://p", Addresses: []string{"10.0.0.1"}}, "addresses does not go with proxy"},
		"addresses of a command":   {mcpconfig.Server{Command: "run", Addresses: []string{"10.0.0.1"}}, "addresses can only be used with url"},
		"proxy of a command":       {mcpconfig.Server{Command: "run", Proxy: "http://p"}, "proxy can only be used with url"},
		"relative directory":       {mcpconfig.Server{Command: "run", Cwd: "a"}, "cwd must be an absolute path"},
		"blank in image":           {mcpconfig.Server{Image: "a b"}, "image must not hold blanks"},
		"file target relative":     {mcpconfig.Server{Command: "run", Files: map[string]string{"a": "b"}}, `"a" must be an absolute path`},
		"file target unclean":      {mcpconfig.Server{Command: "run", Files: map[string]string{"/a/../b": "b"}}, "must be an absolute path"},
		"file source escapes":      {mcpconfig.Server{Command: "run", Files: map[string]string{"/a": "../b"}}, `files["/a"] must be a relative path without ..`},
		"timeout in seconds":       {mcpconfig.Server{Command: "run", Timeout: 2.5}, "timeout is in milliseconds and must be at least 100; 2.5 seconds are 2500"},
		"odd memory":               {mcpconfig.Server{Command: "run", Limits: mcpconfig.Limits{Memory: "lots"}}, "memory is not a size"},
		"odd disk":                 {mcpconfig.Server{Command: "run", Limits: mcpconfig.Limits{Disk: "0m"}}, "disk is not a size"},
		"NUL":                      {mcpconfig.Server{Command: "run", Args: []string{"a", "b\x00"}}, "args[1] must not hold a NUL"},
		"variable in a build":      {mcpconfig.Server{Command: "run", Build: &mcpconfig.Build{Args: map[string]string{"A": "1", "T": "a${TOKEN}"}}}, "build.args.T: ${TOKEN} may be a secret, and the image would keep its value"},
		"default in a build":       {mcpconfig.Server{Command: "npx", Args: []string{"x"}, Build: &mcpconfig.Build{Args: map[string]string{"T": "${TOKEN:-x}"}}}, "${TOKEN} may be a secret"},
		"variable in a stage":      {mcpconfig.Server{Command: "run", Build: &mcpconfig.Build{Target: "${STAGE}"}}, "build.target: ${STAGE} may be a secret"},
		"variable in a Dockerfile": {mcpconfig.Server{Command: "run", Build: &mcpconfig.Build{Dockerfile: "${D}/Dockerfile"}}, "build.dockerfile: ${D} may be a secret"},
		"no variable in a build":   {mcpconfig.Server{Command: "run", Build: &mcpconfig.Build{Context: "${DIR}", Args: map[string]string{"T": "$${TOKEN} $TOKEN"}}}, ""},
		"odd env":                  {mcpconfig.Server{Command: "run", Env: map[string]string{"A=B": "c"}}, `"A=B" is not a variable's name`},
		"empty tool":               {mcpconfig.Server{Command: "run", Tools: []string{""}}, "tools[0] must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := mcpconfig.Validate("s", tc.in)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `server "s": `) {
				t.Fatalf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestSupported(t *testing.T) {
	for name, tc := range map[string]struct {
		in   mcpconfig.Server
		want string
	}{
		"stdio":            {mcpconfig.Server{Command: "run", Args: []string{"a"}}, ""},
		"image":            {mcpconfig.Server{Image: "i"}, ""},
		"docker run":       {mcpconfig.Server{Command: "docker", Args: []string{"run", "i"}}, ""},
		"npx in its image": {mcpconfig.Server{Image: "i", Command: "npx"}, ""},
		"remote":           {mcpconfig.Server{URL: "http://h"}, ""},
		"http":             {mcpconfig.Server{Command: "c", Type: "http", Port: 1}, ""},
		"port":             {mcpconfig.Server{Command: "c", Port: 1}, ""},
		"npx":              {mcpconfig.Server{Command: "npx", Args: []string{"x"}}, ""},
		"bunx":             {mcpconfig.Server{Command: "/usr/bin/bunx"}, `not supported yet: server "s": command bunx; use npx, or install the server into an image`},
		"pipx":             {mcpconfig.Server{Command: "pipx"}, `not supported yet: server "s": command pipx; use uvx, or install the server into an image`},
		"sse":              {mcpconfig.Server{Command: "c", Type: "sse", Port: 1}, ""},
		"tools":            {mcpconfig.Server{Command: "c", Tools: []string{"a"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := mcpconfig.Supported("s", tc.in)
			if tc.want == "" && err == nil {
				return
			}
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestShown(t *testing.T) {
	for name, tc := range map[string]struct{ tools, want []string }{
		"left out": {nil, nil},
		"some":     {[]string{"a", "b"}, []string{"a", "b"}},
		"star":     {[]string{"*"}, nil},
		"none":     {[]string{}, []string{}},
	} {
		got := mcpconfig.Server{Tools: tc.tools}.Shown()
		if (got == nil) != (tc.want == nil) || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %#v", name, got)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "github", "my-server-2", "0", "A", "a_b", "_a", "a-", "my_inv", "Inventory", strings.Repeat("a", 63)} {
		if err := mcpconfig.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "_", "a.b", "-a", "a b", "Model", "ä", "a\n", "../x", strings.Repeat("a", 64), "agent", "model", "proxy", "localhost"} {
		if err := mcpconfig.CheckName(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestHostNames(t *testing.T) {
	got, err := mcpconfig.HostNames([]string{"a--b", "my_inv", "Inventory", "Ax__9-"})
	want := map[string]string{"a--b": "a--b", "my_inv": "my-inv", "Inventory": "inventory", "Ax__9-": "ax-9"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	_, err = mcpconfig.HostNames([]string{"my-inv", "b", "My_inv"})
	if want := `servers "my-inv" and "My_inv" would both have the host name my-inv; rename one`; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "7b": 7, "2k": 2048, "512m": 512 << 20, "1G": 1 << 30} {
		if got, err := mcpconfig.ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "m", "1.5g", "1 g", "1t", "1mb", "9999999999999999g", "99999999999999999"} {
		if got, err := mcpconfig.ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d", in, got)
		}
	}
}

func TestRender(t *testing.T) {
	want := `{
  "mcpServers": {
    "a": {
      "type": "http",
      "url": "http://127.0.0.1:8080/mcp"
    },
    "b": {
      "type": "http",
      "url": "http://b/mcp"
    }
  }
}
`
	if got := string(mcpconfig.Render(map[string]string{"b": "b", "a": "127.0.0.1:8080"})); got != want {
		t.Errorf("got %s", got)
	}
	if got, want := string(mcpconfig.Render(nil)), "{\n  \"mcpServers\": {}\n}\n"; got != want {
		t.Errorf("got %q", got)
	}
}

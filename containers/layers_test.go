package containers

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// messages has lines as an engine sends them.
func messages(lines ...string) io.ReadCloser {
	return io.NopCloser(strings.NewReader(strings.Join(lines, "\n")))
}

// TestPullSteps follows the layers of an image, as Engine 20.10 tells of them, and what a registry that lies
// may have it tell.
func TestPullSteps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ said, want []string }{
		"a pull": {[]string{
			`{"status":"Pulling from big/image","id":"1"}`,
			`{"status":"Pulling fs layer","progressDetail":{},"id":"a"}`,
			`{"status":"Pulling fs layer","progressDetail":{},"id":"b"}`,
			`{"status":"Already exists","progressDetail":{},"id":"c"}`,
			`{"status":"Downloading","progressDetail":{"current":250000,"total":1000000},"progress":"[=>  ]","id":"a"}`,
			`{"status":"Downloading","progressDetail":{"current":250000,"total":3000000},"id":"b"}`,
			`{"status":"Download complete","progressDetail":{},"id":"a"}`,
			`{"status":"Verifying Checksum","progressDetail":{},"id":"b"}`,
			`{"status":"Extracting","progressDetail":{"current":1,"total":9},"id":"a"}`,
			`{"status":"Pull complete","progressDetail":{},"id":"a"}`,
			`{"status":"Digest: sha256:0"}`,
		}, []string{"0 of 1 layers there", "0 of 2 layers there", "1 of 3 layers there", "25% of 1MB in 2 of 3 layers", "12% of 4MB", "31% of 4MB", "1 of 3 layers done", "1 of 3 layers done", "2 of 3 layers done"}},
		"odd numbers": {[]string{
			`{"status":"Downloading","progressDetail":{"current":-5,"total":100},"id":"a"}`,
			`{"status":"Downloading","progressDetail":{"current":500,"total":100},"id":"a"}`,
			`{"status":"Downloading","progressDetail":{"current":1,"total":-100},"id":"a"}`,
			`{"status":"Downloading","progressDetail":{"current":1,"total":1e99},"id":"a"}`,
			`{"status":"Downloading","progressDetail":[],"id":"a"}`,
			`{"status":"Downloading","progressDetail":{"current":9223372036854775807,"total":9223372036854775807},"id":"b"}`,
			`{"status":"Downloading","progressDetail":{"current":0,"total":9223372036854775807},"id":"c"}`,
		}, []string{"0% of 100B", "100% of 100B", "100% of 100B", "100% of 100B", "100% of 100B", "100% of 9.223EB", "50% of 18.45EB"}},
		"no layers": {[]string{`{"status":"Downloading","progressDetail":{"current":1,"total":2}}`, `{"stream":"x"}`, `{"status":"\u001b[2J","id":"a"}`}, nil},
	} {
		var got []string
		if err := readProgress(messages(test.said...), stepsOf(func(step string) { got = append(got, step) })); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestBuildSteps follows a build whose base is pulled. No step tells a secret.
func TestBuildSteps(t *testing.T) {
	t.Parallel()
	var got []string
	id, err := readBuild(messages(
		`{"stream":"Step 1/3 : FROM registry.example/base"}`, `{"stream":"\n"}`,
		`{"status":"Pulling from base","id":"latest"}`,
		`{"status":"Downloading","progressDetail":{"current":1,"total":4},"id":"a"}`,
		`{"status":"Pull complete","progressDetail":{},"id":"a"}`,
		`{"stream":" ---> 1234\nStep 2/3 : RUN npm ci --token=hunter2\n"}`, `{"stream":"installed 5\n"}`, `{"stream":"step 9 of mine\n"}`,
		`{"stream":"Step 3/3 : USER 1\n"}`, `{"aux":{"ID":"sha256:1"}}`,
	), func(s string) string { return strings.ReplaceAll(s, "hunter2", "[REDACTED]") }, func(step string) { got = append(got, step) })
	want := []string{
		"step 1/3, FROM registry.example/base", "step 1/3, FROM registry.example/base: 25% of 4B", "step 1/3, FROM registry.example/base: 1 of 1 layers done",
		"step 2/3, RUN npm ci --token=[REDACTED]", "step 3/3, USER 1",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || id != "sha256:1" {
		t.Errorf("%q, %v: %s", id, err, diff)
	}
}

// FuzzProgress reads what an engine sends of builds and pulls, in which registries and programs have a say.
func FuzzProgress(f *testing.F) {
	f.Add(`{"status":"Downloading","progressDetail":{"current":1,"total":4},"id":"a"}`)
	f.Add(`{"stream":"Step 1/3 : RUN x\n"}{"error":"no"}`)
	f.Fuzz(func(t *testing.T, said string) {
		var steps []string
		take := func(step string) { steps = append(steps, step) }
		_ = readProgress(messages(said), stepsOf(take))
		_, _ = readBuild(messages(said), strings.Clone, take)
		if i := slices.IndexFunc(steps, func(s string) bool { return len(s) > 2*maxStep+100 }); i >= 0 {
			t.Errorf("a step of %d bytes", len(steps[i]))
		}
	})
}

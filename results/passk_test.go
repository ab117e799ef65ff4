package results

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rows reads a table of testdata, which must have some.
func rows[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func TestPassKTable(t *testing.T) {
	for _, row := range rows[struct {
		N, C, K  int
		PassAtK  float64 `json:"pass_at_k"`
		PassHatK float64 `json:"pass_hat_k"`
	}](t, "passk_table.json") {
		at, hat := passAtK(row.C, row.N)[row.K-1], passHatK(row.C, row.N)[row.K-1]
		if !near(at, row.PassAtK) || !near(hat, row.PassHatK) {
			t.Errorf("%d of %d, k %d: pass@k %v, pass^k %v; want %v, %v", row.C, row.N, row.K, at, hat, row.PassAtK, row.PassHatK)
		}
	}
}

func TestWilsonTable(t *testing.T) {
	for _, row := range rows[struct {
		C, N     int
		Wilson95 [2]float64
	}](t, "wilson.json") {
		if ci := wilson(row.C, row.N); !near(ci.Lower, row.Wilson95[0]) || !near(ci.Upper, row.Wilson95[1]) {
			t.Errorf("%d of %d: %v; want %v", row.C, row.N, ci, row.Wilson95)
		}
	}
}

func TestStudentTable(t *testing.T) {
	for _, row := range rows[struct {
		P  float64
		DF int
		T  float64
	}](t, "t_quantiles.json") {
		if got := student(row.P, row.DF); math.Abs(got-row.T) > 1e-9*row.T {
			t.Errorf("p %v, %d degrees of freedom: %v; want %v", row.P, row.DF, got, row.T)
		}
	}
}

// 10,000 trials overflow no coefficient, and the ends of the curves are exact.
func TestPassKOfManyTrials(t *testing.T) {
	const n = 10_000
	for _, test := range []struct {
		c, k    int
		at, hat float64
	}{
		{0, n, 0, 0}, {1, 1, 1e-4, 1e-4}, {1, n, 1, 0}, {n - 1, n, 1, 0}, {n, n, 1, 1},
		{5000, 2, 1 - 5000.*4999/(n*(n-1.)), 5000. * 4999 / (n * (n - 1.))},
		{n - 1, 5000, 1, 0.5},
	} {
		at, hat := passAtK(test.c, n)[test.k-1], passHatK(test.c, n)[test.k-1]
		if !near(at, test.at) || !near(hat, test.hat) {
			t.Errorf("%d of %d, k %d: pass@k %v, pass^k %v; want %v, %v", test.c, n, test.k, at, hat, test.at, test.hat)
		}
	}
}

func TestPassKProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		at, hat := passAtK(c, n), passHatK(c, n)
		rate := float64(c) / float64(n)
		if len(at) != n || len(hat) != n || !near(at[0], rate) || !near(hat[0], rate) {
			t.Fatalf("pass@1 %v and pass^1 %v are not the rate %v", at[0], hat[0], rate)
		}
		for k := range n {
			switch {
			case hat[k] < 0 || at[k] > 1 || hat[k] > at[k]+1e-12:
				t.Fatalf("k %d: pass^k %v, pass@k %v", k+1, hat[k], at[k])
			case k > 0 && (at[k] < at[k-1] || hat[k] > hat[k-1]):
				t.Fatalf("k %d: pass@k falls or pass^k rises", k+1)
			case c < n && (passAtK(c+1, n)[k] < at[k] || passHatK(c+1, n)[k] < hat[k]):
				t.Fatalf("k %d: one more pass makes it worse", k+1)
			}
		}
	})
}

// The mean is computed up to the k for which every task has trials.
func TestMeanCurve(t *testing.T) {
	got := meanCurve([][]float64{passHatK(5, 5), passHatK(4, 5), passHatK(1, 2)})
	if want := []float64{(1 + .8 + .5) / 3, (1 + .6 + 0) / 3}; !slices.EqualFunc(got, want, near) {
		t.Errorf("%v; want %v", got, want)
	}
	if got := meanCurve(nil); got != nil {
		t.Errorf("of no task: %v", got)
	}
}

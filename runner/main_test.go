package runner

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/internal/memtest"
)

func TestMain(m *testing.M) {
	memtest.Main(map[string]memtest.Role{gradingRole: gradeLarge})
	goleak.VerifyTestMain(m)
}

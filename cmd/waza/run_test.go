package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
)

func TestChoose(t *testing.T) {
	tasks := []eval.ResolvedTask{
		{ID: "price", Name: "What it costs", Tags: []string{"read", "money"}},
		{ID: "reserve", Name: "Reserve", Tags: []string{"write"}},
		{ID: "report", Name: "Report"},
	}
	tests := []struct {
		name      string
		ids, tags []string
		want      string // ids, or what the error says
	}{
		{"all", nil, nil, "price reserve report"},
		{"by id", []string{"report"}, nil, "report"},
		{"by glob of ids", []string{"re*"}, nil, "reserve report"},
		{"by name", []string{"What*"}, nil, "price"},
		{"by either", []string{"price", "report"}, nil, "price report"},
		{"by tag", nil, []string{"read"}, "price"},
		{"by glob of tags", nil, []string{"*"}, "price reserve"},
		{"by either tag", nil, []string{"money", "write"}, "price reserve"},
		{"by both lists", []string{"re*"}, []string{"write"}, "reserve"},
		{"none", []string{"nobody"}, nil, "no task matches --task nobody; the eval's tasks are price, reserve, report"},
		{"none by both", []string{"report"}, []string{"read"}, "no task matches --tags read --task report"},
		{"no glob", []string{"[a"}, nil, `"[a" is not a glob`},
		{"no glob of tags", nil, []string{"[a"}, `"[a" is not a glob`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			chosen, err := selectTasks(tasks, test.ids, test.tags)
			if err != nil {
				var exit *exitError
				if !strings.Contains(err.Error(), test.want) || !errors.As(err, &exit) || exit.code != exitUsage {
					t.Errorf("error %v, want %q with exit code %d", err, test.want, exitUsage)
				}
				return
			}
			var ids []string
			for _, task := range chosen {
				ids = append(ids, task.ID)
			}
			if diff := cmp.Diff(strings.Fields(test.want), ids); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{exitWith(exitOK), -1},
		{exitWith(exitFailed), exitFailed},
		{usage("bad %s", "flag"), exitUsage},
		{fmt.Errorf("wrapped: %w", &exitError{exitInfra, context.Canceled}), exitInfra},
		{errors.Join(exitWith(exitInfra)), exitInfra},
	}
	for _, test := range tests {
		got := -1
		var exit *exitError
		if errors.As(test.err, &exit) {
			got = exit.code
		}
		if got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
	if !errors.Is(&exitError{exitInfra, context.Canceled}, context.Canceled) {
		t.Error("an exit error hides its cause")
	}
}

package main

import (
	"net/http"

	"github.com/waza-isolate/waza/modelstub"
	"github.com/waza-isolate/waza/runner"
)

// modelScript reads the script of a model that is played in this process.
func modelScript(file string, data []byte) (runner.ModelScript, error) {
	script, err := modelstub.Parse(file, data)
	if err != nil {
		return nil, err
	}
	return func() http.Handler { return script.Handler() }, nil
}

func checkModelScript(file string, data []byte) error {
	_, err := modelScript(file, data)
	return err
}

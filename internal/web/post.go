package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Post sends JSON with header, which it completes, and returns the response and its content. It
// reads at most limit+1 bytes of the content, and follows no redirects. If it returns both a
// response and an error, reading the content failed.
func Post(ctx context.Context, by http.RoundTripper, url string, header http.Header, body []byte, limit int64) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: by, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	return response, content, err
}

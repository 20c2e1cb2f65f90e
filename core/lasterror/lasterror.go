// Package lasterror carries errors over the border between Go and native code, which keeps the last error of each thread.
package lasterror

import (
	"libmmsb/core/status"
	"libmmsb/native"
)

// Store makes an error the calling thread's last one and returns its code; 0 without one.
func Store(err error) int32 {
	if err == nil {
		return 0
	}
	e := status.Of(err)
	return native.Fail(int32(e.Code), e.Domain, e.Foreign, status.Plain(e.Text))
}

// Load is the error that native code has stored for the calling thread when it returned a code; nil for 0.
func Load(code int32) error {
	if code == 0 {
		return nil
	}
	stored, domain, foreign, text := native.LastError()
	if stored != code {
		return status.Errorf(status.Internal, "native code failed with %d, but stored %d: %s", code, stored, text)
	}
	return &status.Error{Code: status.Code(code), Domain: domain, Foreign: foreign, Text: text}
}

package status_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/core/status"
)

func TestCodesHaveTheirNames(t *testing.T) {
	assert.Equal(t, "MMSB_OK", status.OK.String())
	assert.Equal(t, "MMSB_E_INVALID_ARGUMENT", status.InvalidArgument.String())
	assert.Equal(t, "MMSB_E_POISONED", status.Code(91).String())
}

func TestUnknownCodesHaveAName(t *testing.T) {
	assert.Equal(t, "status 77", status.Code(77).String())
	assert.Equal(t, "status -1", status.Code(-1).String())
}

func TestErrorfKeepsOneLine(t *testing.T) {
	err := status.Errorf(status.NotFound, "no page %q in %d\nlines\r", "a", 2)
	own := status.Of(err)
	assert.Equal(t, &status.Error{Code: status.NotFound, Text: `no page "a" in 2\nlines\r`}, own)
	assert.Equal(t, `MMSB_E_NOT_FOUND: no page "a" in 2\nlines\r`, err.Error())
}

func TestFromErrnoNamesTheErrno(t *testing.T) {
	own := status.Of(status.FromErrno(status.NoSpace, syscall.ENOSPC, "write of %d bytes", 4096))
	assert.Equal(t, status.NoSpace, own.Code)
	assert.Equal(t, status.DomainErrno, own.Domain)
	assert.Equal(t, int32(syscall.ENOSPC), own.Foreign)
	assert.Equal(t, "write of 4096 bytes: no space left on device (ENOSPC)", own.Text)

	unnamed := status.Of(status.FromErrno(status.IO, syscall.Errno(4000), "read"))
	assert.Contains(t, unnamed.Text, "errno 4000")
}

func TestOf(t *testing.T) {
	assert.Nil(t, status.Of(nil))
	own := status.Errorf(status.Busy, "2 pins")
	assert.Same(t, own, status.Of(own))
	assert.Same(t, own, status.Of(fmt.Errorf("item 3: %w", own)))
	assert.Equal(t, &status.Error{Code: status.Internal, Text: "strange"}, status.Of(errors.New("strange")))
}

func TestCodeOf(t *testing.T) {
	assert.Equal(t, status.OK, status.CodeOf(nil))
	assert.Equal(t, status.Busy, status.CodeOf(status.Errorf(status.Busy, "2 pins")))
	assert.Equal(t, status.Internal, status.CodeOf(errors.New("strange")))
}

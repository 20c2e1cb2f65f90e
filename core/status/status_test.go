package status_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// header reads the numbers that mmsb.h defines under a prefix.
func header(t *testing.T, pattern string) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../../include/mmsb.h")
	require.NoError(t, err)
	values := map[string]int{}
	for _, match := range regexp.MustCompile(`(?m)^#define (`+pattern+`) (\d+)\b`).FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.Atoi(match[2])
		require.NoError(t, err)
		values[match[1]] = value
	}
	return values
}

func TestCodesAreThoseOfTheHeader(t *testing.T) {
	codes := header(t, `MMSB_OK|MMSB_E_[A-Z_]+`)
	require.Greater(t, len(codes), 25)
	for name, value := range codes {
		assert.Equal(t, name, status.Code(value).String(), "code %d", value)
	}
	known := 0
	for value := range status.Code(1000) {
		if name := value.String(); name != fmt.Sprintf("status %d", value) {
			known++
			assert.Contains(t, codes, name)
		}
	}
	assert.Equal(t, len(codes), known, "codes of the header and of this package")
}

func TestDomainsAreThoseOfTheHeader(t *testing.T) {
	assert.Equal(t, map[string]int{
		"MMSB_DOMAIN_NONE":  int(status.DomainNone),
		"MMSB_DOMAIN_ERRNO": int(status.DomainErrno),
		"MMSB_DOMAIN_CUDA":  int(status.DomainCUDA),
		"MMSB_DOMAIN_NCCL":  int(status.DomainNCCL),
		"MMSB_DOMAIN_NIXL":  int(status.DomainNIXL),
	}, header(t, `MMSB_DOMAIN_[A-Z]+`))
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

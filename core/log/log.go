// Package log is the library's log: a ring of the newest lines that the program polls. It is for diagnostics and off unless
// asked for.
//
// A line is time, level and text. It can also go to a file descriptor of the program, and to stderr where the environment
// asked for it. Logging never waits for a descriptor that takes no bytes: the line is then left out there, and the next one
// says how many were.
package log

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/limits"
	"libmmsb/core/status"
)

// The levels.
const (
	Off     = abi.LogOff
	Error   = abi.LogError
	Warning = abi.LogWarning
	Info    = abi.LogInfo
	Debug   = abi.LogDebug
)

const (
	ringBytes = 256 << 10
	lineBytes = 32 << 10 // a longer line is cut
)

// logger is the log of a process. There is one; tests make their own.
type logger struct {
	level atomic.Int32

	mutex sync.Mutex // held for short copies only, never for a write to a descriptor
	ring  ring

	output     sync.Mutex // held while a line goes to the descriptors, so that lines stay whole
	descriptor sink
	stderr     sink
}

var process = newLogger()

func newLogger() *logger {
	return &logger{descriptor: sink{descriptor: -1}, stderr: sink{descriptor: -1}}
}

// Configure sets what is logged, and the descriptor that lines are written to as well, or -1. After the return the
// descriptor before is no longer used. Errors: InvalidArgument.
func Configure(level, descriptor int) error { return process.configure(level, descriptor) }

// ConfigureFromEnvironment sets the level from the value of the environment variable MMSB_LOG and sends the lines to stderr
// as well. An empty value changes nothing. Errors: InvalidArgument.
func ConfigureFromEnvironment(value string) error {
	return process.configureFromEnvironment(value, unix.Stderr)
}

// Enabled says whether a level is logged: for callers whose arguments are expensive.
func Enabled(level int) bool { return int32(level) <= process.level.Load() }

// Logf logs a line, where the level is logged.
func Logf(level int, format string, arguments ...any) {
	if Enabled(level) {
		process.write(level, status.Plain(fmt.Sprintf(format, arguments...)))
	}
}

// Read takes the oldest lines that fit into the buffer out of the log. lost is the number of lines that were overwritten
// since the last Read. Errors: OutOfRange, where the next line does not fit: nothing is taken, and n is what it needs.
func Read(buffer []byte) (n int, lost uint64, err error) { return process.read(buffer) }

func (l *logger) configure(level, descriptor int) error {
	if level < Off || level > Debug {
		return status.Errorf(status.InvalidArgument, "log level is %d, not %d to %d", level, Off, Debug)
	}
	return l.begin(level, &l.descriptor, descriptor)
}

// begin sets the level and one of the descriptors, -1 for none.
func (l *logger) begin(level int, to *sink, descriptor int) error {
	target := sink{descriptor: -1}
	if descriptor != -1 {
		var err error
		if target, err = newSink(descriptor); err != nil {
			return err
		}
	}
	l.output.Lock()
	defer l.output.Unlock()
	*to = target
	l.level.Store(int32(level))
	return nil
}

func (l *logger) configureFromEnvironment(value string, stderr int) error {
	if value == "" {
		return nil
	}
	for level, name := range abi.LogNames {
		if value == name {
			return l.begin(level, &l.stderr, stderr)
		}
	}
	return status.Errorf(status.InvalidArgument, "MMSB_LOG is %q, not one of %s", value, strings.Join(abi.LogNames[:], ", "))
}

func (l *logger) write(level int, text string) {
	line := format(time.Now(), level, text)
	l.mutex.Lock()
	l.ring.add(line)
	l.mutex.Unlock()

	l.output.Lock()
	defer l.output.Unlock()
	l.descriptor.write(line)
	l.stderr.write(line)
}

func (l *logger) read(buffer []byte) (int, uint64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ring.take(buffer)
}

var escapes = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// format makes the line, with its final newline, at most lineBytes long and cut at a character.
func format(now time.Time, level int, text string) []byte {
	line := make([]byte, 0, 64+len(text))
	line = now.AppendFormat(line, time.RFC3339Nano)
	line = append(line, ' ')
	line = append(line, abi.LogNames[level]...)
	line = append(line, ' ')
	line = append(line, escapes.Replace(text)...)
	if len(line) >= lineBytes {
		end := lineBytes - 1
		for end > lineBytes-utf8.UTFMax && !utf8.RuneStart(line[end]) {
			end--
		}
		line = line[:end]
	}
	return append(line, '\n')
}

// ring holds whole lines, the oldest first. Its memory comes with the first line.
type ring struct {
	memory []byte
	start  int // of the oldest line
	length int
	lost   uint64
}

func (r *ring) add(line []byte) {
	if r.memory == nil {
		r.memory = make([]byte, ringBytes)
	}
	for len(r.memory)-r.length < len(line) {
		r.drop(r.next())
		r.lost++
	}
	end := (r.start + r.length) % len(r.memory)
	copied := copy(r.memory[end:], line)
	copy(r.memory, line[copied:])
	r.length += len(line)
}

// next is the length of the oldest line.
func (r *ring) next() int {
	first := r.memory[r.start:min(r.start+r.length, len(r.memory))]
	if at := bytes.IndexByte(first, '\n'); at >= 0 {
		return at + 1
	}
	return len(first) + bytes.IndexByte(r.memory[:r.length-len(first)], '\n') + 1
}

func (r *ring) drop(length int) {
	r.start = (r.start + length) % len(r.memory)
	r.length -= length
}

func (r *ring) take(buffer []byte) (n int, lost uint64, err error) {
	for r.length > 0 {
		length := r.next()
		if length > len(buffer)-n {
			if n == 0 {
				return length, 0, status.Errorf(status.OutOfRange, "buffer has %d bytes, the next line needs %d", len(buffer),
					length)
			}
			break
		}
		copied := copy(buffer[n:n+length], r.memory[r.start:])
		copy(buffer[n+copied:n+length], r.memory)
		r.drop(length)
		n += length
	}
	lost, r.lost = r.lost, 0
	return n, lost, nil
}

// sink is a descriptor that lines go to.
type sink struct {
	descriptor int // -1 = none
	socket     bool
	dropped    uint64 // lines left out since the last that went through
	torn       bool   // the last line went through in part
}

func newSink(descriptor int) (sink, error) {
	flags, err := unix.FcntlInt(uintptr(descriptor), unix.F_GETFL, 0)
	if err != nil {
		return sink{}, status.Errorf(status.InvalidArgument, "descriptor %d is not open", descriptor)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0 {
		return sink{}, status.Errorf(status.InvalidArgument, "descriptor %d is not open for writing", descriptor)
	}
	var properties unix.Stat_t
	if err := unix.Fstat(descriptor, &properties); err != nil {
		return sink{}, status.Errorf(status.InvalidArgument, "descriptor %d: %v", descriptor, err)
	}
	return sink{descriptor: descriptor, socket: properties.Mode&unix.S_IFMT == unix.S_IFSOCK}, nil
}

func (s *sink) write(line []byte) {
	if s.descriptor < 0 {
		return
	}
	if s.dropped > 0 || s.torn {
		notice := format(time.Now(), Warning, fmt.Sprintf("%d lines were left out here: the descriptor took no bytes",
			s.dropped))
		if s.torn {
			notice = append([]byte{'\n'}, notice...)
		}
		if s.pass(notice) {
			s.dropped, s.torn = 0, false
		}
	}
	if s.dropped > 0 || !s.pass(line) {
		s.dropped++
	}
}

// pass writes a line without waiting and says whether all of it went through. A pipe or terminal that is ready takes a page
// without waiting, so longer lines go in pieces.
func (s *sink) pass(line []byte) bool {
	const pieceBytes = 4096
	for written := 0; written < len(line); {
		n, err := s.writePiece(line[written:min(written+pieceBytes, len(line))])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			s.torn = s.torn || written > 0
			return false
		}
		written += n
	}
	return true
}

func (s *sink) writePiece(piece []byte) (int, error) {
	if s.socket {
		return unix.SendmsgN(s.descriptor, piece, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	ready := []unix.PollFd{{Fd: int32(s.descriptor), Events: unix.POLLOUT}}
	if n, err := unix.Poll(ready, 0); err != nil {
		return 0, err
	} else if n == 0 || ready[0].Revents != unix.POLLOUT { // a pipe without a reader would raise SIGPIPE
		return 0, unix.EAGAIN
	}
	if err := limits.FileSizeHere(s.descriptor, uint64(len(piece))); err != nil {
		return 0, err
	}
	return unix.Write(s.descriptor, piece)
}

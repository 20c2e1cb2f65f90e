// Package messages collects every text that the library and the tool can show to a user: errors, log lines and help.
// They are read out of the sources, so that a text on a rare path is in the list as well. docs/messages.txt is the list.
package messages

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Message is one text with the room it stands in and the status code or the kind (log, help, ...) it goes with.
type Message struct {
	Room, Code, Text string
}

// rooms are the folders whose texts users see.
var rooms = []string{"capi", "cmd", "core", "gpu", "native", "nccl", "transfer"}

// strerror stands for a room in the list: what mmsb_strerror says of each code.
const strerror = "mmsb_strerror"

// notShipped are folders in them that no user runs.
var notShipped = []string{"testdata", "tests", "conformance", "filetest", "plant"}

// Collect reads the sources below root. The result is sorted and holds no text twice in one room with the same code.
func Collect(root string) ([]Message, error) {
	var goFiles, cFiles []string
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains(notShipped, entry.Name()):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				goFiles = append(goFiles, path)
			case strings.HasSuffix(path, ".c") || strings.HasSuffix(path, ".h"):
				cFiles = append(cFiles, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	found, err := ofGo(root, goFiles)
	if err != nil {
		return nil, err
	}
	for _, path := range cFiles {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		inFile, err := ofC(roomOf(root, path), string(source))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found = append(found, inFile...)
	}
	slices.SortFunc(found, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Room, b.Room), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(found), nil
}

// List is the messages as docs/messages.txt has them.
func List(all []Message) string {
	var list strings.Builder
	list.WriteString("Every error message, log line and help text of the library and of the tool, by room and status code.\n" +
		"Written by `go test ./tests/messages -update`; %d and the like stand for what is put in.\n")
	room := ""
	for _, m := range all {
		if m.Room != room {
			room = m.Room
			fmt.Fprintf(&list, "\n%s\n", room)
		}
		fmt.Fprintf(&list, "  %-16s  %s\n", m.Code, strings.ReplaceAll(m.Text, "\n", "\n"+strings.Repeat(" ", 20)))
	}
	return list.String()
}

func roomOf(root, path string) string {
	relative, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		panic(err) // path was found below root
	}
	return filepath.ToSlash(relative)
}

// -------------------------------------------------------------------------------------------------------------- Go ----

// ofGo parses the files twice over: first for functions that take a message, then for the texts that they are given.
func ofGo(root string, paths []string) ([]Message, error) {
	set := token.NewFileSet()
	files := make([]*ast.File, len(paths))
	takers := map[string]map[string]int{"": {"errors.New": 0}} // room and function: which argument is the message
	for i, path := range paths {
		var err error
		if files[i], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		takers[roomOf(root, path)] = map[string]int{}
	}
	for i, file := range files {
		room := roomOf(root, paths[i])
		ast.Inspect(file, func(n ast.Node) bool {
			if name, parameters := declared(n); name != "" {
				if at := messageParameter(parameters); at >= 0 {
					takers[room][name] = at
					takers[""][file.Name.Name+"."+name] = at
				}
			}
			return true
		})
	}
	takers[""]["fmt.Errorf"] = 0
	var found []Message
	for i, file := range files {
		c := collector{room: roomOf(root, paths[i])}
		c.own, c.others = takers[c.room], takers[""]
		ast.Inspect(file, c.visit)
		found = append(found, c.found...)
	}
	return found, nil
}

// declared is a function's name and parameters: of a declaration, or of a literal that a variable is given.
func declared(n ast.Node) (string, *ast.FieldList) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Name.Name, n.Type.Params
	case *ast.AssignStmt:
		name, isName := n.Lhs[0].(*ast.Ident)
		literal, isFunction := n.Rhs[0].(*ast.FuncLit)
		if isName && isFunction {
			return name.Name, literal.Type.Params
		}
	}
	return "", nil
}

// messageNames are the names of parameters that are messages, or the end of one.
var messageNames = []string{"format", "complaint", "doing", "how", "reason"}

// messageParameter is the index of the parameter that is a message, or -1.
func messageParameter(parameters *ast.FieldList) int {
	at := 0
	for _, field := range parameters.List {
		kind, isName := field.Type.(*ast.Ident)
		for _, name := range field.Names {
			if isName && kind.Name == "string" && slices.Contains(messageNames, name.Name) {
				return at
			}
			at++
		}
	}
	return -1
}

type collector struct {
	room        string
	own, others map[string]int
	found       []Message
}

func (c *collector) add(code string, text ast.Expr) {
	if value, known := constant(text); known && strings.Trim(value, "%svd: ") != "" {
		c.found = append(c.found, Message{c.room, code, value})
	}
}

// flagMethods are those of a command's flags whose last argument explains the flag.
var flagMethods = regexp.MustCompile(`^(Bool|String|Int|Uint|Uint64|Duration)(Var)?P?$`)

func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.call(n)
	case *ast.KeyValueExpr:
		switch key, _ := n.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Short" || key.Name == "Long":
			c.add("help", n.Value)
		case key.Name == "Reason":
			c.add("capability", n.Value)
		}
	}
	return true
}

func (c *collector) call(call *ast.CallExpr) {
	name, at, taken := "", -1, false
	switch function := call.Fun.(type) {
	case *ast.Ident:
		name = function.Name
		at, taken = c.own[name]
	case *ast.SelectorExpr:
		name = function.Sel.Name
		if of, isName := function.X.(*ast.Ident); isName {
			at, taken = c.others[of.Name+"."+name]
		}
		if !taken {
			at, taken = c.own[name]
		}
		if flags, isCall := function.X.(*ast.CallExpr); isCall && flagMethods.MatchString(name) && len(call.Args) > 0 {
			if of, isMethod := flags.Fun.(*ast.SelectorExpr); isMethod && of.Sel.Name == "Flags" {
				c.add("help", call.Args[len(call.Args)-1])
			}
		}
	}
	if name == "group" && len(call.Args) > 1 {
		c.add("help", call.Args[1])
	}
	if taken && at < len(call.Args) {
		c.add(c.codeOf(name, call.Args), call.Args[at])
	}
}

// codeOf is the status code among the arguments; log for a line of the log; - where a function finds it.
func (c *collector) codeOf(function string, arguments []ast.Expr) string {
	for _, argument := range arguments {
		if of, isSelector := argument.(*ast.SelectorExpr); isSelector {
			switch from, _ := of.X.(*ast.Ident); {
			case from == nil:
			case from.Name == "status":
				return snake(of.Sel.Name)
			case from.Name == "log":
				return "log " + strings.ToLower(of.Sel.Name)
			}
		}
	}
	if function == "Logf" {
		return "log"
	}
	return "-"
}

var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// snake writes a code as mmsb.h does, without MMSB_E_: InvalidArgument is INVALID_ARGUMENT.
func snake(name string) string { return strings.ToUpper(wordEnd.ReplaceAllString(name, "${1}_$2")) }

// constant is the value of a string literal, or of several that are added. What is no literal is shown as %s.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if value, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return value, true
		}
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.BinaryExpr:
		left, leftKnown := constant(e.X)
		right, rightKnown := constant(e.Y)
		if e.Op == token.ADD && (leftKnown || rightKnown) {
			return orArgument(left, leftKnown) + orArgument(right, rightKnown), true
		}
	case *ast.CallExpr:
		if of, isSelector := e.Fun.(*ast.SelectorExpr); isSelector && of.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return constant(e.Args[0])
		}
	}
	return "", false
}

func orArgument(text string, known bool) string {
	if known {
		return text
	}
	return "%s"
}

// --------------------------------------------------------------------------------------------------------------- C ----

var (
	cMessage = regexp.MustCompile(`\b(?:mmsb__fail|CODE)\(\s*(\w[\w>.-]*)\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*|PRI[a-z]\d+\s*)+)`)
	cCall    = regexp.MustCompile(`\bmmsb__fail\([^m]`) // not where it is declared: mmsb_status_t code
	cLiteral = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// ofC finds the texts that C fails with, and those of the codes themselves.
func ofC(room, source string) ([]Message, error) {
	var found []Message
	calls := 0
	for _, match := range cMessage.FindAllStringSubmatch(source, -1) {
		text := ""
		for _, literal := range cLiteral.FindAllString(match[2], -1) {
			part, err := strconv.Unquote(literal)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", literal, err)
			}
			text += part
		}
		code, isCode := strings.CutPrefix(match[1], "MMSB_")
		if !isCode {
			code = "-"
		}
		if strings.HasPrefix(match[0], "mmsb__fail") {
			calls++
		}
		in := room
		if strings.HasPrefix(match[0], "CODE") {
			in = strerror
		}
		found = append(found, Message{in, strings.TrimPrefix(code, "E_"), text})
	}
	if all := len(cCall.FindAllString(source, -1)); all != calls {
		return nil, fmt.Errorf("%d of %d calls of mmsb__fail have a text that can be read here", calls, all)
	}
	return found, nil
}

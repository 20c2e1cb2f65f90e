//go:build plants

package runtime

// Planted is the bug that the runtime has now; the tests set it.
var Planted bug

func plant(b bug) bool { return Planted == b }

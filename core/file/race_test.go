//go:build race

package file_test

const raceDetector = true

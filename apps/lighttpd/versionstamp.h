/* The Makefile writes this: a release has no revision. */
#define REPO_VERSION ""

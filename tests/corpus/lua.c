// Lua on a script: `lua FILE [ARGUMENT...]`. A script that fails ends it: there are no jumps here
// (include/setjmp.h).

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

// In place of `tmpfile`, which WASI's libc lacks.
FILE *no_tmpfile(void) {
    return NULL;
}

int main(int count, char **arguments) {
    lua_State *state = luaL_newstate();
    if (count < 2 || !state)
        return 2;
    luaL_openlibs(state);
    lua_createtable(state, count - 2, 0);
    for (int at = 2; at < count; at++) {
        lua_pushstring(state, arguments[at]);
        lua_rawseti(state, -2, at - 1);
    }
    lua_setglobal(state, "arg");
    int failed = luaL_loadfile(state, arguments[1]) || lua_pcall(state, 0, 0, 0);
    if (failed)
        printf("%s\n", lua_tostring(state, -1));
    lua_close(state);
    return failed;
}

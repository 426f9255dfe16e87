// NVRTC that compiles nothing: what it gives is taken by the stand-in of libcuda, which has all kernels.
#include <cstring>
#include <string>

extern "C" {
typedef int Result;
struct Program { std::string source, ptx, log; };

Result nvrtcCreateProgram(Program **program, const char *source, const char *, int, const char *const *, const char *const *) {
    *program = new Program{source, "", ""}; return 0;
}
Result nvrtcCompileProgram(Program *program, int n, const char *const *options) {
    bool fused = true, has_architecture = false;
    for (int i = 0; i < n; ++i) {
        fused &= std::strcmp(options[i], "--fmad=false") != 0;
        has_architecture |= std::strncmp(options[i], "--gpu-architecture=compute_", 27) == 0;
    }
    if (fused || !has_architecture) { program->log = "options are missing"; return 6; }
    if (program->source.find("KERNEL ") == std::string::npos) { program->log = "a source without kernels"; return 6; }
    program->ptx = "// compiled by the stand-in\n";
    return 0;
}
Result nvrtcGetPTXSize(Program *program, size_t *n) { *n = program->ptx.size() + 1; return 0; }
Result nvrtcGetPTX(Program *program, char *text) { std::strcpy(text, program->ptx.c_str()); return 0; }
Result nvrtcGetProgramLogSize(Program *program, size_t *n) { *n = program->log.size() + 1; return 0; }
Result nvrtcGetProgramLog(Program *program, char *text) { std::strcpy(text, program->log.c_str()); return 0; }
Result nvrtcDestroyProgram(Program **program) { delete *program; *program = nullptr; return 0; }
const char *nvrtcGetErrorString(Result) { return "see the log"; }
}

// An NVML for tests: a program that finds this libnvidia-ml.so.1 (LD_LIBRARY_PATH) sees healthy GPUs,
// whatever their bus ids, with the exceptions in FAKE_NVML: `name=value,...` with the names used below. One
// that is not mentioned here does not exist, as in an old library.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3;

unsigned long long setting(const char* name, unsigned long long otherwise) {
  const char* text = std::getenv("FAKE_NVML");
  const std::string all = std::string(",") + (text == nullptr ? "" : text),
                    key = std::string(",") + name + "=";
  const std::size_t at = all.find(key);
  return at == std::string::npos ? otherwise : std::strtoull(all.c_str() + at + key.size(), nullptr, 10);
}

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned id;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

template <class T>
int give(T* to, const char* name, unsigned long long otherwise) {
  *to = static_cast<T>(setting(name, otherwise));
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return setting("init", 0) == 0 ? kSuccess : kNotSupported; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.00");
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  static int something;
  *device = &something;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void*, unsigned, int*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::snprintf(text, length, "Fake GPU");
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {16ULL << 30, 15ULL << 30, 1ULL << 30};
  return kSuccess;
}
int nvmlDeviceGetEccMode(void*, int* now, int* later) {
  give(now, "ecc", 1);
  return give(later, "ecc_later", setting("ecc", 1));
}
int nvmlDeviceGetTotalEccErrors(void*, int type, int counter, unsigned long long* count) {
  return type == 1 && counter == 0 ? give(count, "errors", 0) : kNotSupported;
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = *uncorrected = 0;
  give(pending, "row_pending", 0);
  return give(failed, "row_failed", 0);
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* clock) {
  return type == 1   ? give(clock, "clock", 345)
         : type == 2 ? give(clock, "memory_clock", 2619)
                     : kNotSupported;
}
int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* clock) {
  return type == 1   ? give(clock, "most_clock", 1980)
         : type == 2 ? give(clock, "most_memory_clock", 2619)
                     : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  return give(reasons, "throttle", 1);  // idle
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) { return give(milliwatts, "power", 700000); }
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* milliwatts) {
  return give(milliwatts, "usual_power", 700000);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) { return give(degrees, "temperature", 35); }
int nvmlDeviceGetTemperatureThreshold(void*, int, unsigned* degrees) { return give(degrees, "slowdown", 87); }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* lanes) { return give(lanes, "lanes", 16); }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) { return give(lanes, "most_lanes", 16); }
int nvmlDeviceGetPersistenceMode(void*, int* mode) { return give(mode, "persistence", 1); }
int nvmlDeviceGetComputeMode(void*, int* mode) { return give(mode, "compute_mode", 0); }
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) { return kNotSupported; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  const auto id = static_cast<unsigned>(setting("process", 0));
  if (id == 0 || *count == 0) {
    *count = 0;
    return kSuccess;
  }
  *count = 1;
  processes[0] = {id, setting("process_bytes", 1ULL << 30), ~0U, ~0U};
  return kSuccess;
}

}  // extern "C"

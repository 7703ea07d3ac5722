#include "banyan/device/cores.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <thread>
#include <tuple>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

namespace {

/// The numbers in a list such as "0-3,8"; empty for anything else.
std::vector<int> parse_core_list(std::istream& in) {
  std::vector<int> cores;
  for (int first = 0; in >> first;) {
    int last = first;
    if (in.peek() == '-' && !(in.ignore() >> last)) return {};
    for (int core = first; core <= last && core < CPU_SETSIZE; ++core) cores.push_back(core);
    if (in.peek() == ',') in.ignore();
  }
  return cores;
}

}  // namespace

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  if (cores.empty())  // more cores than the set can hold: the system refuses to say
    for (int core = 0; core < std::max(1, static_cast<int>(std::thread::hardware_concurrency())); ++core)
      cores.push_back(core);
  return cores;
}

bool run_on_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

std::vector<CoreSeat> seats_of(const std::vector<int>& cores) {
  std::vector<CoreSeat> seats;
  for (const int core : cores) {
    CoreSeat seat{core, 0, 0};
    const std::string folder = cat("/sys/devices/system/cpu/cpu", core, "/topology/");
    if (std::ifstream package(folder + "physical_package_id"); !(package >> seat.package)) seat.package = 0;
    std::ifstream list(folder + "thread_siblings_list");
    for (const int sibling : parse_core_list(list))
      if (sibling < core && contains(cores, sibling)) ++seat.sibling;
    seats.push_back(seat);
  }
  return seats;
}

std::vector<std::vector<int>> share_out(std::vector<CoreSeat> seats, const std::vector<int>& taken,
                                        int devices, int threads) {
  const auto needed = static_cast<std::size_t>(devices) * static_cast<std::size_t>(threads);
  if (needed > seats.size()) return {};
  // The best cores for all devices, then in an order in which each device's are neighbours.
  const auto taken_last = [&](const CoreSeat& seat) {
    return std::make_tuple(contains(taken, seat.core), seat.sibling, seat.package, seat.core);
  };
  std::sort(seats.begin(), seats.end(),
            [&](const CoreSeat& a, const CoreSeat& b) { return taken_last(a) < taken_last(b); });
  seats.resize(needed);
  std::sort(seats.begin(), seats.end(), [](const CoreSeat& a, const CoreSeat& b) {
    return std::tie(a.package, a.sibling, a.core) < std::tie(b.package, b.sibling, b.core);
  });
  std::vector<std::vector<int>> shares(devices);
  for (std::size_t i = 0; i < needed; ++i)
    shares[i / static_cast<std::size_t>(threads)].push_back(seats[i].core);
  return shares;
}

std::string core_list(const std::vector<int>& cores) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0, end = 0; i < cores.size(); i = end) {
    for (end = i + 1; end < cores.size() && cores[end] == cores[end - 1] + 1;) ++end;
    ranges.push_back(end == i + 1 ? cat(cores[i]) : cat(cores[i], "-", cores[end - 1]));
  }
  return join(ranges, ",");
}

DeviceCores::DeviceCores(int devices, int threads, Pinning pinning, std::string claims)
    : claims_(std::move(claims)), all_(allowed_cores()) {
  const auto needed = static_cast<std::size_t>(devices) * static_cast<std::size_t>(threads);
  const std::string demand = cat(devices, devices == 1 ? " CPU device x " : " CPU devices x ", threads,
                                 threads == 1 ? " thread" : " threads");
  if (pinning == Pinning::off) {
    note_ = cat(demand, ", not bound to cores");
  } else if (needed > all_.size()) {
    if (pinning == Pinning::on)
      bad_input("--pin=on: ", demand, " need ", needed, " cores, but this process may use ", all_.size());
    note_ = cat(demand, " share ", all_.size(), all_.size() == 1 ? " core" : " cores");
  } else if (devices == 1 && needed == all_.size()) {
    note_ = cat("cpu:0 on all ", needed);
  } else {
    bind(devices, threads, pinning);
    if (shares_.empty()) note_ = demand + ", not bound to cores: other runs are bound to them";
  }
}

void DeviceCores::bind(int devices, int threads, Pinning pinning) {
  const std::vector<CoreSeat> seats = seats_of(all_);
  std::vector<int> claimed, taken;
  // A core that turns out to be taken is replaced by the next one; no other core moves.
  for (bool changed = true; changed;) {
    changed = false;
    shares_ = share_out(seats, taken, devices, threads);
    for (const auto& share : shares_)
      for (const int core : share) {
        if (contains(claimed, core) || contains(taken, core)) continue;
        changed = true;
        (claim(core) ? claimed : taken).push_back(core);
      }
  }
  if (pinning == Pinning::on || claimed.size() == shares_.size() * static_cast<std::size_t>(threads)) return;
  shares_.clear();
  release();
}

void DeviceCores::release() {
  for (const int socket : sockets_) ::close(socket);
  sockets_.clear();
}

DeviceCores::~DeviceCores() {
  release();
  if (!shares_.empty()) run_on_cores(all_);
}

/// A name in the abstract namespace of local sockets can be bound only once per machine and is released when
/// its process ends, however it ends.
bool DeviceCores::claim(int core) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = cat(claims_, " core ", core).substr(0, sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    ::close(socket);
    return false;
  }
  sockets_.push_back(socket);
  return true;
}

const std::vector<int>& DeviceCores::of(int rank) const { return shares_.empty() ? none_ : shares_[rank]; }

std::string DeviceCores::describe() const {
  constexpr std::size_t kShown = 16;
  if (shares_.empty()) return "Cores: " + note_;
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < std::min(kShown, shares_.size()); ++i)
    devices.push_back(cat("cpu:", i, " on ", core_list(shares_[i])));
  return "Cores: " + join(devices, "; ") + (shares_.size() > kShown ? "; ..." : "");
}

}  // namespace banyan

#include "settings.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <sstream>

#include "failure.hpp"

namespace emulated {

namespace {

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "EMULATED_CUDA: %s\n", why.c_str());
  std::_Exit(2);
}

double number(const std::string& key, const std::string& value, double least, double most) {
  char* end = nullptr;
  const double parsed = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != 0 || !(parsed >= least && parsed <= most))
    refuse(key + "=" + value + ": a number is expected");
  return parsed;
}

std::string one_of(const std::string& key, const std::string& value, const std::string& choices) {
  std::istringstream words(choices);
  for (std::string word; words >> word;)
    if (word == value) return value;
  refuse(key + "=" + value + ": one of these is expected: " + choices);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

InjectedFailure failure(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 4) refuse("fail=" + text + ": NAME:N[:CODE][:sticky] is expected");
  InjectedFailure failure;
  failure.function = parts[0];
  failure.number = static_cast<unsigned long long>(number("fail", parts[1], 1, 1e15));
  for (std::size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "sticky")
      failure.sticky = true;
    else
      failure.code = static_cast<int>(number("fail", parts[i], 1, 1e6));
  }
  return failure;
}

std::string peers(const std::string& value) {
  if (value.find_first_not_of("01/") == std::string::npos && !value.empty()) return value;
  return one_of("peers", value, "all none islands one_way");
}

Settings parse(const std::string& text) {
  Settings s;
  const auto yes = [](const std::string& key, const std::string& value) {
    return one_of(key, value, "0 1") == "1";
  };
  using Setter = std::function<void(const std::string& key, const std::string& value)>;
  const std::map<std::string, Setter> setters = {
      {"gpus", [&](auto& k, auto& v) { s.gpus = static_cast<int>(number(k, v, 0, 16)); }},
      {"memory_mib",
       [&](auto& k, auto& v) { s.memory = static_cast<std::size_t>(number(k, v, 1, 1 << 17)) << 20; }},
      {"capability", [&](auto& k, auto& v) { s.capability = static_cast<int>(number(k, v, 50, 129)); }},
      {"peers", [&](auto&, auto& v) { s.peers = peers(v); }},
      {"peer_gbps", [&](auto& k, auto& v) { s.peer_gbps = number(k, v, 0, 1e6); }},
      {"staged_gbps", [&](auto& k, auto& v) { s.staged_gbps = number(k, v, 0, 1e6); }},
      {"host_gbps", [&](auto& k, auto& v) { s.host_gbps = number(k, v, 0, 1e6); }},
      {"delay_us", [&](auto& k, auto& v) { s.delay_us = static_cast<unsigned>(number(k, v, 0, 1e6)); }},
      {"lazy", [&](auto& k, auto& v) { s.lazy = yes(k, v); }},
      {"order", [&](auto& k, auto& v) { s.order = one_of(k, v, "forward reverse random"); }},
      {"seed", [&](auto& k, auto& v) { s.seed = static_cast<unsigned>(number(k, v, 0, 4e9)); }},
      {"cudnn", [&](auto& k, auto& v) { s.cudnn = one_of(k, v, "full contiguous none last refuse"); }},
      {"ulps", [&](auto& k, auto& v) { s.ulps = static_cast<int>(number(k, v, 0, 1000)); }},
      {"fail",
       [&](auto&, auto& v) {
         for (const std::string& one : split(v, '+')) s.failures.push_back(failure(one));
       }},
      {"on_violation", [&](auto& k, auto& v) { s.report = one_of(k, v, "abort report") == "report"; }},
      {"stacks", [&](auto& k, auto& v) { s.stacks = yes(k, v); }},
      {"notes", [&](auto& k, auto& v) { s.notes = yes(k, v); }},
      {"trace", [&](auto& k, auto& v) { s.trace = yes(k, v); }},
      {"leaks", [&](auto& k, auto& v) { s.leaks = yes(k, v); }},
      {"counts", [&](auto&, auto& v) { s.counts = v; }},
  };
  for (const std::string& part : split(text, ',')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    const auto setter = setters.find(part.substr(0, equals));
    if (equals == std::string::npos || setter == setters.end()) refuse("unknown setting \"" + part + "\"");
    setter->second(setter->first, part.substr(equals + 1));
  }
  return s;
}

std::string environment() {
  const char* text = std::getenv("EMULATED_CUDA");
  return text != nullptr ? text : "";
}

/// Ongoing work may still read replaced settings: they are never deleted.
std::deque<Settings>& all() {
  static auto& settings = *new std::deque<Settings>;
  return settings;
}

std::atomic<const Settings*>& current() {
  static std::atomic<const Settings*> settings = [] { return &all().emplace_back(parse(environment())); }();
  return settings;
}

}  // namespace

const Settings& settings() { return *current().load(std::memory_order_acquire); }

void configure(const std::string& text) {
  const Settings& before = settings();
  Settings* changed = &all().emplace_back(parse(environment() + "," + text));
  changed->gpus = before.gpus;
  changed->memory = before.memory;
  changed->peers = before.peers;
  current().store(changed, std::memory_order_release);
  forget_failures();
}

}  // namespace emulated

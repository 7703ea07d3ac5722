// Files for the trainer program: nets and solvers as text next to TrainingRun's data set.
#pragma once

#include <gmock/gmock.h>

#include "train/trainer_process.hpp"
#include "train/training_run.hpp"

namespace banyan {

class TrainerRun : public TrainingRun {
 protected:
  void SetUp() override {
    TrainingRun::SetUp();
    write("net", lmdb_source() + net_behind_sources());
    write("solver", solver_for("net"));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string solver_for(const std::string& net, const std::string& more = "max_iter: 4 snapshot: 2") const {
    return "net: '" + path(net) + "' base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 snapshot_prefix: '" +
           path("run/s") + "' " + more;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::unique_ptr<TrainerProcess> start(const std::vector<std::string>& arguments,
                                        rlim_t largest_file = 0) const {
    return std::make_unique<TrainerProcess>(folder_, path("log"), arguments, largest_file);
  }
  /// Runs to the end and returns the exit code; the output is in file("log").
  int run(const std::vector<std::string>& arguments, rlim_t largest_file = 0) const {
    return start(arguments, largest_file)->wait();
  }
  int train_with(const std::string& solver, std::vector<std::string> flags = {}) const {
    flags.push_back("--solver=" + path(solver));
    return run(flags);
  }

  /// The error on stderr, from `trainer: ...` to the end: one paragraph without a stack trace.
  std::string message() const {
    const std::string log = file("log");
    const std::size_t start =
        log.rfind("\ntrainer: ") != std::string::npos ? log.rfind("\ntrainer: ") + 1 : log.find("trainer: ");
    EXPECT_NE(start, std::string::npos) << log;
    if (start == std::string::npos) return "";
    const std::string text = log.substr(start);
    EXPECT_EQ(text.find("\n\n"), std::string::npos) << text;
    EXPECT_LT(text.size(), 1500u) << text;
    for (const char* trace : {"Check failed", "stack trace", "*** ", "terminate called", "    @ "})
      EXPECT_EQ(log.find(trace), std::string::npos) << log;
    EXPECT_EQ(text.find("trainer: "), text.rfind("trainer: ")) << "said twice: " << text;
    return text;
  }
  void expect_refusal(int code, const std::vector<std::string>& words) const {
    EXPECT_EQ(code, 2) << file("log");
    const std::string text = message();
    for (const std::string& word : words) EXPECT_THAT(text, ::testing::HasSubstr(word));
  }
};

}  // namespace banyan

// The job scripts of docs/examples, with a program in the place of srun or mpirun that ends with given codes.
#include <gmock/gmock.h>

#include <filesystem>

#include "program_test.hpp"

namespace banyan::tools {
namespace {

struct Job {
  const char *script, *starter;
};

class JobScriptTest : public ProgramTest, public testing::WithParamInterface<Job> {
 protected:
  /// The n-th start logs its arguments and does what line n of `deeds` says.
  Result submit(const std::string& deeds) const {
    write("deeds", deeds);
    write(GetParam().starter,
          "#!/bin/bash\n"
          "echo \"$@\" >> starts\n"
          "trap 'echo signal >> starts; exit 0' USR1\n"
          "eval \"$(sed -n \"$(wc -l < starts)p\" deeds)\"\n");
    namespace fs = std::filesystem;
    fs::permissions(path(GetParam().starter), fs::perms::owner_all);
    fs::remove(path("starts"));
    Result result;
    const std::string script = std::string(BANYAN_SOURCE) + "/docs/examples/" + GetParam().script;
    const std::string line = "cd '" + folder_ + "' && PATH=\"$PWD:$PATH\" PAUSE=0.01 timeout 20 bash '" +
                             script + "' 'my solver' --metrics=M > log 2>&1";
    const int status = std::system(line.c_str());
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    result.output = read("log");
    return result;
  }
};

TEST_P(JobScriptTest, EndsWithTheRunAndStartsItAgainAfterAFailure) {
  EXPECT_EQ(submit("exit 0").code, 0);
  EXPECT_THAT(read("starts"), testing::HasSubstr("trainer --gpu=all --uplink=mpi --solver=my solver "
                                                 "--snapshot=latest --metrics=M\n"));
  EXPECT_EQ(submit("exit 1\nexit 134\nkill -9 $$\nexit 0").code, 0);
  const std::string starts = read("starts");
  EXPECT_EQ(std::count(starts.begin(), starts.end(), '\n'), 4);
}

TEST_P(JobScriptTest, DoesNotRepeatAMistake) {
  const Result result = submit("exit 1\nexit 2\nexit 0");
  EXPECT_EQ(result.code, 2) << result.output;
  const std::string starts = read("starts");
  EXPECT_EQ(std::count(starts.begin(), starts.end(), '\n'), 2);
}

/// The signal goes to the script, which tells the run; that ends in its own time. Slurm gives srun's signal
/// to what srun started.
TEST_P(JobScriptTest, StopsAfterTheSignal) {
  if (std::string(GetParam().starter) == "srun") GTEST_SKIP() << "srun passes it on";
  const Result result = submit("kill -USR1 $PPID; for i in $(seq 500); do sleep 0.01; done; exit 7");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(read("starts"), testing::EndsWith("signal\n"));
}

INSTANTIATE_TEST_SUITE_P(Scripts, JobScriptTest,
                         testing::Values(Job{"train_srun.sbatch", "srun"},
                                         Job{"train_mpirun.sbatch", "mpirun"}),
                         [](const auto& info) { return std::string(info.param.starter); });

}  // namespace
}  // namespace banyan::tools

// What the doctor makes of GPUs, from recorded states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "train/doctor/gpus.hpp"

namespace banyan::doctor {
namespace {

using parallel::ClockLimit;
using parallel::GpuState;
using testing::AllOf;
using testing::HasSubstr;

CudaVersions matching() {
  CudaVersions versions;
  versions.runtime = versions.built_with = versions.driver = versions.cudnn_runtime = 13000;
  versions.cudnn = versions.cudnn_built_with = 91002;
  versions.architectures = {80, 90};
  return versions;
}

std::vector<Finding> judged(const CudaVersions& versions) {
  Findings findings;
  judge_versions(versions, "580.1", findings);
  return findings.all();
}

TEST(DoctorVersions, ThatFit) {
  const auto findings = judged(matching());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::ok);
  EXPECT_EQ(findings[0].text, "driver 580.1 for CUDA 13.0; CUDA 13.0, cuDNN 9.10.2");
}

TEST(DoctorVersions, ThatDoNot) {
  const auto kind_with = [](auto change) {
    CudaVersions versions = matching();
    change(versions);
    const auto findings = judged(versions);
    EXPECT_EQ(findings.size(), 1u);
    EXPECT_NE(findings[0].remedy, "");
    return findings[0].kind;
  };
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.driver = 12080; }), FindingKind::error);
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.runtime = v.built_with = 13020; }), FindingKind::warning);
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.built_with = 12040; }), FindingKind::error);
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.cudnn = 8902; }), FindingKind::error);
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.cudnn = 90100; }), FindingKind::warning);
  EXPECT_EQ(kind_with([](CudaVersions& v) { v.cudnn_runtime = 12080; }), FindingKind::error);
}

TEST(DoctorVersions, CudnnsOfAllAges) {
  CudaVersions versions = matching();
  versions.cudnn = 8902;
  EXPECT_THAT(judged(versions).at(0).text, HasSubstr("built with cuDNN 9.10.2, but runs with 8.9.2"));
}

CudaGpu gpu() { return {"A GPU", 90, std::size_t{80} << 30, std::size_t{79} << 30}; }

GpuState healthy() {
  GpuState state;
  state.ecc = state.ecc_after_restart = true;
  state.uncorrected_errors = 0;
  state.row_repair_failed = state.row_repair_pending = false;
  state.clock = 345;
  state.most_clock = 1980;
  state.power_limit = state.usual_power_limit = 700;
  state.temperature = 40;
  state.slowdown_temperature = 87;
  state.lanes = state.most_lanes = 16;
  state.persistent = true;
  state.mig = state.exclusive = state.prohibited = false;
  return state;
}

std::vector<Finding> judged(const GpuState& state, const CudaGpu& of_cuda = gpu(),
                            const CudaVersions& versions = matching()) {
  Findings findings;
  judge_gpu("gpu:0", of_cuda, versions, state, findings);
  return findings.all();
}

std::vector<Finding> bad_ones(const std::vector<Finding>& findings) {
  std::vector<Finding> bad;
  for (const Finding& finding : findings)
    if (finding.kind != FindingKind::ok) bad.push_back(finding);
  return bad;
}

TEST(DoctorGpu, Healthy) {
  for (const Finding& finding : judged(healthy())) EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
  GpuState process = healthy();
  process.processes.push_back({static_cast<unsigned>(::getpid()), 1 << 20, "trainer"});
  for (const Finding& finding : judged(process))
    EXPECT_EQ(finding.kind, FindingKind::ok) << "this process is no stranger: " << finding.text;
}

TEST(DoctorGpu, WhatTheDriverDoesNotTellIsNotJudged) {
  for (const Finding& finding : judged(GpuState{})) EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
}

TEST(DoctorGpu, EachFaultIsFound) {
  struct Case {
    void (*change)(GpuState&);
    FindingKind kind;
    const char* words;
  };
  const Case cases[] = {
      {[](GpuState& s) {
         s.processes.push_back({17, std::uint64_t{3} << 30, "python"});
       },
       FindingKind::warning, "in use by process 17 (python) with 3.0 GiB"},
      {[](GpuState& s) { s.uncorrected_errors = 2; }, FindingKind::error, "2 errors of its memory"},
      {[](GpuState& s) { s.row_repair_failed = true; }, FindingKind::error, "cannot be replaced"},
      {[](GpuState& s) { s.row_repair_pending = true; }, FindingKind::warning, "at the next reset"},
      {[](GpuState& s) { s.ecc = false; }, FindingKind::warning, "ECC is off"},
      {[](GpuState& s) { s.ecc_after_restart = false; }, FindingKind::warning, "ECC will be off"},
      {[](GpuState& s) { s.clock_limits = {ClockLimit::heat}; }, FindingKind::warning,
       "slowed down by heat, at 40"},
      {[](GpuState& s) { s.clock_limits = {ClockLimit::setting}; }, FindingKind::warning,
       "clocks that were set"},
      {[](GpuState& s) { s.temperature = 84; }, FindingKind::warning, "it slows down at 87"},
      {[](GpuState& s) { s.power_limit = 350; }, FindingKind::warning,
       "limited to 350 W, 50 % of its usual 700 W"},
      {[](GpuState& s) { s.lanes = 4; }, FindingKind::warning, "4 of 16 PCIe lanes"},
      {[](GpuState& s) { s.prohibited = true; }, FindingKind::error, "forbids programs"}};
  for (const Case& one : cases) {
    GpuState state = healthy();
    one.change(state);
    const std::vector<Finding> bad = bad_ones(judged(state));
    ASSERT_EQ(bad.size(), 1u) << one.words;
    EXPECT_EQ(bad[0].kind, one.kind) << one.words;
    EXPECT_THAT(bad[0].text, HasSubstr(one.words));
    EXPECT_NE(bad[0].remedy, "") << one.words;
    EXPECT_EQ(bad[0].topic, "gpu:0");
  }
}

TEST(DoctorGpu, KernelsWithoutOptimization) {
  CudaVersions versions = matching();
  versions.optimized = false;
  const std::vector<Finding> bad = bad_ones(judged(healthy(), gpu(), versions));
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(bad[0].kind, FindingKind::warning);
  EXPECT_THAT(bad[0].text, HasSubstr("without optimization"));
  EXPECT_THAT(bad[0].remedy, HasSubstr("BANYAN_CUDA_OPTIMIZE"));
}

TEST(DoctorGpu, MemoryThatNobodySeenHolds) {
  CudaGpu held = gpu();
  held.free = held.memory / 2;
  EXPECT_THAT(judged(healthy(), held).at(0).text, HasSubstr("no other process is seen"));
}

TEST(DoctorGpu, KernelsForIt) {
  const auto text_for = [](int architecture) {
    CudaGpu other = gpu();
    other.architecture = architecture;
    for (const Finding& finding : judged(healthy(), other))
      if (finding.kind != FindingKind::ok) return finding.text;
    return std::string();
  };
  EXPECT_EQ(text_for(80), "");
  EXPECT_EQ(text_for(86), "") << "native code of 80";
  EXPECT_EQ(text_for(90), "");
  EXPECT_THAT(text_for(75),
              HasSubstr("compute capability 7.5, but the program has kernels for 80, 90 and newer"));
  EXPECT_THAT(text_for(120), HasSubstr("the driver compiles them"));
}

TopologyReport two_gpus() {
  const parallel::LinkMatrix links(2, parallel::LinkClass::nvlink4);
  TopologyReport report{{"gpu:0", "gpu:1"},          true,  1,  16, links, "auto",
                        parallel::build_tree(links), false, {}, {}};
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}})
    report.measured.push_back(
        {from, to, parallel::LinkClass::nvlink4, parallel::Access::in_place, {}, {200e9, 8e-6}});
  return report;
}

std::vector<Finding> judged(const TopologyReport& report) {
  Findings findings;
  judge_links(report, findings);
  return findings.all();
}

TEST(DoctorLinks, Whole) {
  const auto findings = judged(two_gpus());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::ok);
  EXPECT_THAT(findings[0].text,
              AllOf(HasSubstr("2 links: all data arrived whole"), HasSubstr("186 GiB/s or more")));
}

TEST(DoctorLinks, DamagedStalledOrSlow) {
  TopologyReport report = two_gpus();
  report.measured[1].check = {parallel::LinkVerdict::corrupt, "17 of 1048576 words differ when copied"};
  auto findings = judged(report);
  ASSERT_EQ(findings.size(), 2u) << "the other direction is whole";
  EXPECT_EQ(findings[0].kind, FindingKind::error);
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("gpu:1 to gpu:0"), HasSubstr("damages data: 17 of")));
  EXPECT_EQ(findings[0].remedy, parallel::kLinkHint);

  report.measured[1].check = {parallel::LinkVerdict::stalled, "not done after 10 s when copied"};
  EXPECT_THAT(judged(report)[0].text, HasSubstr("not done after 10 s"));

  report = two_gpus();
  report.measured[0].speed.bytes_per_second = 1e9;
  findings = judged(report);
  EXPECT_EQ(findings[0].kind, FindingKind::warning);
  EXPECT_THAT(findings[0].text, HasSubstr("gpu:0 to gpu:1"));
}

}  // namespace
}  // namespace banyan::doctor

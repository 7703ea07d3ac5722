#include "banyan/parallel/link_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "faulty_device.hpp"
#include "watchful_device.hpp"

namespace banyan::parallel {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBytes = 3 << 20;  // more than the two buffers of a detour

std::unique_ptr<Device> cpu(int ordinal, bool asynchronous) {
  CpuDeviceOptions options;
  options.asynchronous = asynchronous;
  options.max_delay_us = asynchronous ? 200 : 0;
  return make_cpu_device(ordinal, options);
}

TEST(VerifyLink, EveryWayBetweenGoodDevicesIsWhole) {
  for (const bool asynchronous : {false, true}) {
    const auto owner = cpu(0, asynchronous), reader = cpu(1, asynchronous);
    for (const Access access : {Access::in_place, Access::copied, Access::staged})
      EXPECT_EQ(verify_link(*owner, *reader, access, kBytes).verdict, LinkVerdict::whole) << name_of(access);
  }
}

TEST(VerifyLink, FindsDamage) {
  FaultyDevice owner(0, Fault::damages), reader(1, Fault::damages);
  const LinkCheck check = verify_link(owner, reader, Access::in_place, kBytes);
  EXPECT_EQ(check.verdict, LinkVerdict::corrupt);
  EXPECT_THAT(check.what, HasSubstr("1 of 786432 words differ when copied, the first at byte 256"));
  EXPECT_EQ(verify_link(owner, reader, Access::staged, kBytes).verdict, LinkVerdict::whole);
}

TEST(VerifyLink, NoticesThatNothingArrives) {
  const auto gate = std::make_shared<Gate>();
  // Abandoned together with what the check abandons.
  auto& owner = *new FaultyDevice(0, Fault::stalls, gate);
  auto& reader = *new FaultyDevice(1, Fault::stalls, gate);
  const LinkCheck check = verify_link(owner, reader, Access::copied, 4096, 0.2);
  EXPECT_EQ(check.verdict, LinkVerdict::stalled);
  EXPECT_EQ(check.what, "not done after 0.2 s when copied");
  gate->open();
}

/// However a check ends, copies in flight keep the memory they use.
TEST(VerifyLink, FreesNothingUnderACopy) {
  for (const Access access : {Access::copied, Access::staged}) {
    int failing = 0;
    for (bool failed = true; failed; ++failing) {
      SCOPED_TRACE(cat(name_of(access), ", copy ", failing, " fails"));
      CopyWatch watch(failing);
      WatchfulDevice owner(0, watch), reader(1, watch);
      try {
        EXPECT_EQ(verify_link(owner, reader, access).verdict, LinkVerdict::whole);
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "this copy fails");
      }
      failed = watch.failed();
      EXPECT_EQ(watch.freed_too_early(), 0);
    }
    // Two buffers out, one over, one back; as many bytes as are usual go through the host's two buffers in
    // three parts, which two copies more for each part show.
    EXPECT_GE(failing, access == Access::staged ? 10 : 4);
  }
}

TEST(MeasureLink, GivesSpeeds) {
  const auto owner = cpu(0, false), reader = cpu(1, false);
  const LinkSpeed speed = measure_link(*owner, *reader, Access::in_place, 1 << 20, 3);
  EXPECT_GT(speed.bytes_per_second, 1e6);
  EXPECT_GT(speed.latency_seconds, 0);
  EXPECT_LT(speed.latency_seconds, 1);
}

TEST(LinkAccess, GoodDevicesReadInPlace) {
  const auto owner = cpu(0, false), reader = cpu(1, false);
  LinkAccess access([](const std::string& line) { ADD_FAILURE() << line; }, LinkAccess::Verify::all);
  EXPECT_EQ(access.between(*owner, *reader), Access::in_place);
}

TEST(LinkAccess, DamagedLinkIsReplacedByTheHostAndToldOnce) {
  FaultyDevice owner(0, Fault::damages), reader(1, Fault::damages);
  std::vector<std::string> warnings;
  LinkAccess access([&](const std::string& line) { warnings.push_back(line); }, LinkAccess::Verify::all);
  EXPECT_EQ(access.between(owner, reader), Access::staged);
  EXPECT_EQ(access.between(owner, reader), Access::staged);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("Data sent from faulty:0 to faulty:1 arrive damaged (1 of"));
  EXPECT_THAT(warnings[0], HasSubstr("staging through the host instead; check the IOMMU and ACS settings"));
}

}  // namespace
}  // namespace banyan::parallel

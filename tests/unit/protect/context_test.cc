// What the words before a value say of it.

#include "../../../src/protect/context.h"

#include <string>

#include <gtest/gtest.h>

namespace mvm::protect {
namespace {

uint32_t says(std::string_view text) {
  return context_before(Window(text.data(), text.size(), true), text.size());
}

TEST(Context, IsThatOfTheWordsOfTheField) {
  EXPECT_EQ(says(""), 0U);
  EXPECT_EQ(says("the number is "), 0U);
  EXPECT_EQ(says("Call me at "), kSaysPhone);
  EXPECT_EQ(says("call, or FAX: "), kSaysPhone);
  EXPECT_EQ(says("phone\n"), 0U);
  EXPECT_EQ(says("phone\t"), 0U);
  EXPECT_EQ(says("phone|passport: "), kSaysPassport);
  EXPECT_EQ(says("{\"phone\": null, \"count\": "), 0U);
  EXPECT_EQ(says("phone=1&dob="), kSaysBirth);
}

TEST(Context, ReadsTheLastPartOfALabel) {
  EXPECT_EQ(says("\"home_phone\": \""), kSaysPhone);
  EXPECT_EQ(says("billingPhone="), kSaysPhone);
  EXPECT_EQ(says("card-number "), kSaysCard);
  EXPECT_EQ(says("Phonebook "), 0U);
  EXPECT_EQ(says("PHONEbook "), 0U);
}

TEST(Context, IsTakenByAnotherValueAndByAnotherWord) {
  EXPECT_EQ(says("phone 12 "), kSaysPhone);
  EXPECT_EQ(says("passport, phone 12 "), kSaysPhone);
  EXPECT_EQ(says("passport or phone "), kSaysPassport | kSaysPhone);
  EXPECT_EQ(says("phone of the order "), kSaysOther);
  EXPECT_EQ(says("order 12 "), 0U);
}

TEST(Context, ReachesSixtyFourBytesAndNoCutWord) {
  for (size_t gap = 1; gap < 100; ++gap)
    EXPECT_EQ(says("a phone" + std::string(gap, '.')), gap + 5 < 64 ? uint32_t{kSaysPhone} : 0U)
        << gap;
  // Whatever part of sixteen bytes the mark is in.
  for (size_t gap = 1; gap < 56; ++gap) {
    EXPECT_EQ(says("phone;fax" + std::string(gap, '.')), kSaysPhone) << gap;
    EXPECT_EQ(says("fax;dob" + std::string(gap, '.')), kSaysBirth) << gap;
  }
}

TEST(Context, KnowsWordsOfOtherScripts) {
  EXPECT_EQ(says("電話番号："), kSaysPhone);
  EXPECT_EQ(says("tél. "), kSaysPhone);
  EXPECT_EQ(says("注文番号 "), kSaysOther);
  EXPECT_EQ(says("注文の電話 "), kSaysPhone);
}

}
}

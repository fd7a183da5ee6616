// Whatever stands where the journal of a sandbox's use of AI lies: no other file is touched, not
// even another sandbox's journal.
#include "../../support/plants.h"

#include "mvm/metering/journal_file.h"

namespace mvm::metering {
namespace {

meter::Record budget_of(uint64_t tokens) {
  meter::Record record;
  record.kind = meter::RecordKind::SetBudget;
  record.budget.total_tokens = tokens;
  return record;
}

void keep_one(const std::string& directory) {
  const sys::Fd opened = sys::open_file(directory, O_PATH | O_DIRECTORY);
  JournalFile journal(opened.get());
  if (!journal.keep(budget_of(7), journal.account())) throw Error(Kind::Internal, journal.why());
}

TEST(Journal, TouchesNothingElse) {
  const sys::TempDir scratch;
  for (const char* suffix : {"", ".new"})
    test::with_each_plant(scratch.path() + "/" + kJournalName + suffix, [&] {
      keep_one(scratch.path());
      EXPECT_TRUE(read_account(scratch.path()));
    });
}

TEST(Journal, OfAnotherSandboxIsNotWrittenTo) {
  const sys::TempDir ours;
  const sys::TempDir others;
  keep_one(others.path());
  const std::string other = others.path() + "/" + kJournalName;
  const std::string before = sys::read_text_file(other, 1 << 20);
  const std::string planted = ours.path() + "/" + kJournalName;
  sys::check(::link(other.c_str(), planted.c_str()), "planting a hard link");
  EXPECT_THROW(keep_one(ours.path()), Error);
  EXPECT_EQ(sys::read_text_file(other, 1 << 20), before);
}

TEST(Journal, IsReadWithoutWaitingForAFifo) {
  const sys::TempDir scratch;
  sys::check(::mkfifo((scratch.path() + "/" + kJournalName).c_str(), 0600), "planting a FIFO");
  EXPECT_THROW(read_account(scratch.path()), Error);
}

}
}

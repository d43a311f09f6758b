"""Files that Spark makes on this machine: by Java, without a process started for each."""

import psutil
import pytest

pytestmark = pytest.mark.spark


def test_a_file_is_made_without_starting_a_process(spark, tmp_path):
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "made"))
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    # Asked of Java itself: other tests of the same run may have started one of their own.
    java = psutil.Process(jvm.java.lang.ProcessHandle.current().pid())
    before = java.cpu_times()
    for _ in range(20):
        files.create(path, True).close()
    after = java.cpu_times()
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644
    spent = after.children_user + after.children_system
    assert spent == before.children_user + before.children_system

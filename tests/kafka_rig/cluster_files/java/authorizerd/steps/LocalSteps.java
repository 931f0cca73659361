package authorizerd.steps;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** A local disk, to which viewfs has a link. */
public final class LocalSteps extends LocalFileSystem {
  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    Steps.reach("create", path);
    return Steps.counted(
        super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress),
        path);
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    Steps.reach("mkdirs", path);
    return super.mkdirs(path, permission);
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    Steps.reach("rename", target);
    return super.rename(source, target);
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    Steps.reach("delete", path);
    return super.delete(path, recursive);
  }
}

package org.apache.hadoop.fs;

import authorizerd.steps.Steps;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;

/** HDFS as a {@code FileContext} reaches it. Its superclass has no public constructor. */
public final class HdfsStepsContext extends Hdfs {
  HdfsStepsContext(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(uri, configuration);
  }

  @Override
  public void renameInternal(Path source, Path target) throws IOException {
    Steps.reach("rename", target);
    super.renameInternal(source, target);
  }
}
